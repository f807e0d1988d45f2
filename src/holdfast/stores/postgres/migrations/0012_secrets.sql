-- What the steps of open runs need: encrypted, with the id of the key. Gone when the run closes,
-- whichever statement closes it.

CREATE TABLE holdfast.run_secrets (
    ns     text COLLATE "C" NOT NULL,
    run    text COLLATE "C" NOT NULL,
    name   text COLLATE "C" NOT NULL,
    key    text COLLATE "C" NOT NULL,
    sealed bytea NOT NULL,
    PRIMARY KEY (ns, run, name)
);

CREATE FUNCTION holdfast.forget_secrets() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM holdfast.run_secrets WHERE ns = NEW.ns AND run = NEW.id;
    RETURN NULL;
END
$$;

CREATE TRIGGER forget_secrets AFTER UPDATE OF closed_at ON holdfast.runs FOR EACH ROW
WHEN (NEW.closed_at IS NOT NULL AND OLD.closed_at IS NULL)
EXECUTE FUNCTION holdfast.forget_secrets();
