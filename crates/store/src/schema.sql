-- The recording file, version 1. Every time_ns counts nanoseconds of the monotonic clock since the recording began;
-- recording.started_wall_ns and the table clock turn it into a date. NULL means: not known or not sampled.

CREATE TABLE recording (
    id                   INTEGER PRIMARY KEY CHECK (id = 1),
    kind                 TEXT    NOT NULL,              -- record, bench, experiment or import
    tool_version         TEXT    NOT NULL,              -- of the unbloat that wrote it
    started_wall_ns      INTEGER NOT NULL,              -- nanoseconds since 1970 UTC
    started_monotonic_ns INTEGER NOT NULL,              -- CLOCK_MONOTONIC at the same moment
    boot_id              TEXT,                          -- /proc/sys/kernel/random/boot_id
    writer_pid           INTEGER,
    writer_start_ticks   INTEGER,                       -- field 22 of the writer's /proc/PID/stat
    ended_ns             INTEGER,                       -- NULL: still being written, or its writer was killed
    end_reason           TEXT,
    exit_status          INTEGER                        -- of the recorded command, as a shell would see it
);

-- Facts about where and how the figures came to be; run is NULL for those of the whole file.
CREATE TABLE provenance (
    run   INTEGER REFERENCES run (id),
    name  TEXT NOT NULL,
    value TEXT NOT NULL
);

CREATE TABLE process (
    id             INTEGER PRIMARY KEY,
    run            INTEGER REFERENCES run (id),
    pid            INTEGER NOT NULL,
    start_ticks    INTEGER,                             -- with the pid it names a process for good
    parent         INTEGER REFERENCES process (id),     -- the process that forked it, as far as known
    command        TEXT    NOT NULL,
    first_seen_ns  INTEGER NOT NULL,
    last_seen_ns   INTEGER NOT NULL,
    ended_ns       INTEGER,                             -- NULL: it outlived the recording
    exit_status    INTEGER,                             -- as a shell would see it
    user_s         REAL,                                -- CPU of its whole life, without its children
    system_s       REAL,
    cpu_source     TEXT,                                -- how that is known: wait, exit, parent or sample
    peak_rss_bytes INTEGER,
    runtime        TEXT,                                -- Ruby and allocator, as found in its memory; its policy
    note           TEXT                                 -- what could not be read, and why
);
-- A process has one row.
CREATE UNIQUE INDEX process_identity ON process (ifnull(run, 0), pid, start_ticks);

-- Processes without a row of their own: when the file came near its limit, those that had ended and of which no sample,
-- census or counter was left were counted here instead. A minute may have several rows.
CREATE TABLE folded (
    time_ns   INTEGER NOT NULL,                         -- the beginning of the minute in which they ended
    processes INTEGER NOT NULL,
    user_s    REAL    NOT NULL,                         -- CPU of their whole lives, without their children, as far as known
    system_s  REAL    NOT NULL
);

CREATE TABLE sample (
    time_ns      INTEGER NOT NULL,
    process      INTEGER NOT NULL REFERENCES process (id),
    rss_bytes    INTEGER,
    pss_bytes    INTEGER,                               -- this and the next two only as often as the budget allows
    uss_bytes    INTEGER,
    swap_bytes   INTEGER,
    minor_faults INTEGER,
    major_faults INTEGER,
    user_s       REAL,                                  -- CPU since the process began, without its children
    system_s     REAL,
    threads      INTEGER
);

-- What memory is made of, in the categories of `unbloat inspect`.
CREATE TABLE census (
    time_ns  INTEGER NOT NULL,
    process  INTEGER NOT NULL REFERENCES process (id),
    category TEXT    NOT NULL,
    bytes    INTEGER NOT NULL,                          -- of this process; over a process they sum up to its RSS
    proportional_bytes INTEGER                          -- shared pages divided; over the tree they sum up to its PSS
);

-- Counters that come with a census: ruby_live_slots, ruby_slots, gc_count, trims, refaults, …
CREATE TABLE counter (
    time_ns INTEGER NOT NULL,
    process INTEGER NOT NULL REFERENCES process (id),
    name    TEXT    NOT NULL,
    value   INTEGER NOT NULL
);

CREATE TABLE mark (
    time_ns INTEGER NOT NULL,
    name    TEXT    NOT NULL,
    run     INTEGER REFERENCES run (id)
);

CREATE TABLE cgroup (
    time_ns       INTEGER NOT NULL,
    path          TEXT    NOT NULL,
    current_bytes INTEGER,
    peak_bytes    INTEGER
);

-- The wall clock, each time it was found to have been stepped.
CREATE TABLE clock (
    time_ns INTEGER NOT NULL,
    wall_ns INTEGER NOT NULL
);

-- What the recording itself costs, summed from its start to time_ns.
CREATE TABLE cost (
    time_ns            INTEGER NOT NULL,
    cpu_s              REAL    NOT NULL,                -- of the recorder, all threads
    rss_bytes          INTEGER,                         -- of the recorder
    ticks              INTEGER NOT NULL,                -- samples of the tree
    late_ticks         INTEGER NOT NULL,                -- taken more than half an interval late
    missed_ticks       INTEGER NOT NULL,                -- not taken: the one before took too long
    pss_sweeps         INTEGER NOT NULL,                -- readings of pss, uss and swap of the whole tree
    pss_held_s         REAL    NOT NULL,                -- for how long they held a target's mmap lock, at most
    censuses           INTEGER NOT NULL,
    census_s           REAL    NOT NULL,                -- CPU they took; the target is not stopped
    short_lived        INTEGER NOT NULL,                -- processes that came and went between two samples
    short_lived_cpu_s  REAL    NOT NULL
);

-- To keep the file small, of all looks at the tree before before_ns that fall into the same bucket_ns only the extremes
-- were kept: the most and the least RSS and the most PSS, or the largest census (see thin.rs).
CREATE TABLE thinning (
    what      TEXT    PRIMARY KEY,                      -- sample or census
    before_ns INTEGER NOT NULL,
    bucket_ns INTEGER NOT NULL                          -- time_ns / bucket_ns numbers the buckets
);

-- Experiments: which variant ran when, and what came of it.
CREATE TABLE variant (
    id       INTEGER PRIMARY KEY,
    name     TEXT NOT NULL UNIQUE,
    settings TEXT NOT NULL                              -- JSON
);
CREATE TABLE block (
    id     INTEGER PRIMARY KEY,
    number INTEGER NOT NULL UNIQUE
);
CREATE TABLE run (
    id         INTEGER PRIMARY KEY,
    variant    INTEGER REFERENCES variant (id),
    block      INTEGER REFERENCES block (id),
    position   INTEGER,                                 -- within its block, from 0
    started_ns INTEGER NOT NULL,
    ended_ns   INTEGER,
    outcome    TEXT                                     -- NULL: running or cut short; done; else what went wrong
);

-- A part of a load: a rate, a number of subscribers.
CREATE TABLE step (
    id         INTEGER PRIMARY KEY,
    run        INTEGER REFERENCES run (id),
    name       TEXT    NOT NULL,
    started_ns INTEGER NOT NULL,
    ended_ns   INTEGER,
    parameters TEXT    NOT NULL                         -- JSON
);
CREATE TABLE latency (
    step      INTEGER NOT NULL REFERENCES step (id),
    kind      TEXT    NOT NULL,                         -- fan_out, ack, delivery, response, queue, …
    count     INTEGER NOT NULL,
    histogram BLOB    NOT NULL                          -- HdrHistogram V2, values in nanoseconds
);
-- Any other figure of a run or of one of its steps.
CREATE TABLE metric (
    run   INTEGER REFERENCES run (id),
    step  INTEGER REFERENCES step (id),
    name  TEXT NOT NULL,
    value REAL NOT NULL,
    unit  TEXT NOT NULL
);
