"""A process that has ended is known by its name, if it is one of this machine's."""

import os
import subprocess
import sys

from holdfast.stores.processes import has_ended, name_of, this


def test_a_process_that_runs_has_not_ended():
    assert this()
    assert not has_ended(this())


def test_a_process_that_was_killed_has_ended_before_its_parent_asks():
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        name = name_of(child.pid)
        assert not has_ended(name)
        child.kill()
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # dead, and left a zombie
        assert has_ended(name)
    assert has_ended(name)


def test_another_process_with_the_same_id_is_not_it():
    name = this()
    earlier = f"{name.rpartition(' ')[0]} 1"
    assert has_ended(earlier)


def test_nobody_can_tell_of_another_machine_or_container():
    boot, namespace, _, started = this().split(" ")
    assert not has_ended(f"{boot[:-1]}x {namespace} 999999999 {started}")
    assert not has_ended(f"{boot} pid:[1] 999999999 {started}")
    assert has_ended(f"{boot} {namespace} 999999999 {started}")


def test_what_is_no_name_tells_nothing():
    for name in ("", "x", "a b", f"{this()} more", name_of(0)):
        assert not has_ended(name)
