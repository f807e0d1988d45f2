-- Moves to or from other stores: this store's part, where the other one is, how far it has come. One
-- that is closed takes writes of the mover only.

CREATE TABLE holdfast.moves (
    id       text COLLATE "C" NOT NULL,
    role     text    NOT NULL,
    place    text    NOT NULL,
    state    text    NOT NULL,
    at       bigint  NOT NULL,
    step     bigint  NOT NULL,
    progress text    NOT NULL,
    closed   boolean NOT NULL,
    PRIMARY KEY (id, role)
);

-- Called by triggers that are there only while a store is closed. The mover opens it inside its own
-- transactions: nobody else sees that.
CREATE FUNCTION holdfast.refuse() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE told text;
BEGIN
    SELECT m.role || ' ' || m.place INTO told FROM holdfast.moves m WHERE m.closed;
    IF told IS NOT NULL THEN
        RAISE EXCEPTION USING ERRCODE = 'HFMOV', MESSAGE = told;
    END IF;
    RETURN NULL;
END
$$;
