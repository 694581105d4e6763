-- A session waits as an item, but its own waiter takes it: the consumer must not have to step over those that wait.
DROP INDEX queue_ready;
CREATE INDEX queue_ready ON deferred_work_queue (depends_on, priority, deferred_at_ms, id)
    WHERE status = 'pending' AND work_type <> 'session';
-- At boot those that wait are looked up.
CREATE INDEX queue_session ON deferred_work_queue (id)
    WHERE work_type = 'session' AND status IN ('pending', 'leased');
