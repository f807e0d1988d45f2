"""Four releases of one shop, deployed one after another under open runs."""
