-- Numbers and JSON of the machines, one row each, replaced whole.
CREATE TABLE state (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The trace: one event a row, as it is printed in a history.
CREATE TABLE journal (
    n           INTEGER PRIMARY KEY,
    incarnation INTEGER NOT NULL,
    at_ms       INTEGER NOT NULL,
    wall_ms     INTEGER NOT NULL,
    event       TEXT NOT NULL
) STRICT;

CREATE TABLE deferred_work_queue (
    id               INTEGER PRIMARY KEY AUTOINCREMENT,
    work_type        TEXT NOT NULL,
    call_site        TEXT NOT NULL,
    priority         INTEGER NOT NULL CHECK (priority BETWEEN 10 AND 100),
    payload          TEXT NOT NULL,
    content_hash     TEXT NOT NULL,
    row_hash         TEXT NOT NULL,
    -- Bits: cloud 1, memory 2, embedding 4, cc 8.
    depends_on       INTEGER NOT NULL CHECK (depends_on BETWEEN 0 AND 15),
    staleness_policy TEXT NOT NULL CHECK (staleness_policy IN ('drain', 'refresh', 'discard', 'ttl')),
    staleness_ttl_ms INTEGER CHECK (staleness_ttl_ms IS NULL OR staleness_ttl_ms >= 0),
    deferred_at_ms   INTEGER NOT NULL,
    deferred_wall_ms INTEGER NOT NULL,
    expires_at_ms    INTEGER,
    reason           TEXT NOT NULL,
    not_before_ms    INTEGER NOT NULL,
    status           TEXT NOT NULL CHECK (status IN
        ('scheduled', 'pending', 'leased', 'done', 'expired', 'discarded', 'refreshed', 'dead', 'in_doubt')),
    attempts         INTEGER NOT NULL DEFAULT 0,
    attempts_max     INTEGER NOT NULL,
    lease_owner      INTEGER,
    lease_until_ms   INTEGER,
    claim_token      INTEGER NOT NULL DEFAULT 0,
    last_error       TEXT,
    finished_at_ms   INTEGER,
    CHECK ((status = 'leased') = (lease_owner IS NOT NULL)),
    CHECK ((staleness_policy = 'ttl') = (staleness_ttl_ms IS NOT NULL))
) STRICT;
CREATE INDEX queue_ready ON deferred_work_queue (depends_on, priority, deferred_at_ms, id) WHERE status = 'pending';
CREATE INDEX queue_scheduled ON deferred_work_queue (not_before_ms) WHERE status = 'scheduled';
CREATE INDEX queue_leased ON deferred_work_queue (lease_until_ms) WHERE status = 'leased';
CREATE INDEX queue_expiry ON deferred_work_queue (expires_at_ms)
    WHERE expires_at_ms IS NOT NULL AND status IN ('scheduled', 'pending');
CREATE UNIQUE INDEX queue_unfinished ON deferred_work_queue (work_type, content_hash, staleness_policy)
    WHERE status IN ('scheduled', 'pending', 'leased');

-- What callers' idempotency keys led to, remembered past the item's own life.
CREATE TABLE seen_key (
    key     TEXT PRIMARY KEY,
    id      INTEGER NOT NULL,
    seen_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX seen_key_age ON seen_key (seen_ms);

-- A row while a message is on its way; it stays, as in doubt, when nobody can say whether it arrived.
CREATE TABLE outreach_intent (
    key        TEXT PRIMARY KEY,
    recipient  TEXT NOT NULL,
    purpose    TEXT NOT NULL,
    intended_ms INTEGER NOT NULL,
    parts_sent INTEGER NOT NULL DEFAULT 0,
    in_doubt   INTEGER NOT NULL DEFAULT 0 CHECK (in_doubt IN (0, 1))
) STRICT, WITHOUT ROWID;
CREATE TABLE outreach_history (
    key       TEXT PRIMARY KEY,
    recipient TEXT NOT NULL,
    purpose   TEXT NOT NULL,
    occasion  TEXT,
    sent_ms   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE outreach_topic (
    recipient TEXT NOT NULL,
    topic     TEXT NOT NULL,
    state     INTEGER NOT NULL,
    PRIMARY KEY (recipient, topic)
) STRICT, WITHOUT ROWID;

CREATE TABLE memory (
    id         INTEGER PRIMARY KEY,
    content    TEXT NOT NULL,
    stored_ms  INTEGER NOT NULL,
    stored_wall_ms INTEGER NOT NULL
) STRICT;
CREATE VIRTUAL TABLE memory_text USING fts5 (content, content = 'memory', content_rowid = 'id');
CREATE TRIGGER memory_insert AFTER INSERT ON memory BEGIN
    INSERT INTO memory_text (rowid, content) VALUES (new.id, new.content);
END;
