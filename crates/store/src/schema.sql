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

-- Facts about the origin of the figures; run is NULL for those of the whole file.
CREATE TABLE provenance (
    run   INTEGER REFERENCES run (id),
    name  TEXT NOT NULL,
    value TEXT NOT NULL
);

CREATE TABLE process (
    id             INTEGER PRIMARY KEY,
    run            INTEGER REFERENCES run (id),
    pid            INTEGER NOT NULL,
    start_ticks    INTEGER,                             -- with the pid, a unique identity
    parent         INTEGER REFERENCES process (id),     -- the process that forked it, as far as known
    command        TEXT    NOT NULL,
    first_seen_ns  INTEGER NOT NULL,
    last_seen_ns   INTEGER NOT NULL,
    ended_ns       INTEGER,                             -- NULL: it outlived the recording
    exit_status    INTEGER,                             -- as a shell would see it
    user_s         REAL,                                -- CPU of its whole life, without its children
    system_s       REAL,
    cpu_source     TEXT,                                -- source of the two: wait, exit, parent or sample
    peak_rss_bytes INTEGER,
    runtime        TEXT,                                -- Ruby and allocator, as found in its memory; its policy
    note           TEXT                                 -- unreadable figures, and why
);
-- A process has one row.
CREATE UNIQUE INDEX process_identity ON process (ifnull(run, 0), pid, start_ticks);

-- Processes without their own row. When the file came near its limit, processes that had ended and of which no sample,
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

-- Composition of memory, in the categories of `unbloat inspect`.
CREATE TABLE census (
    time_ns  INTEGER NOT NULL,
    process  INTEGER NOT NULL REFERENCES process (id),
    category TEXT    NOT NULL,
    bytes    INTEGER NOT NULL,                          -- of this process; the sum over a process is its RSS
    proportional_bytes INTEGER                          -- shared pages divided; the sum over the tree is its PSS
);

-- Counters taken with a census: ruby_live_slots, ruby_slots, gc_count, trims, refaults, …
CREATE TABLE counter (
    time_ns INTEGER NOT NULL,
    process INTEGER NOT NULL REFERENCES process (id),
    name    TEXT    NOT NULL,
    value   INTEGER NOT NULL
);

-- Live objects of Rubies by class: the largest of each process, and one row for the rest. A process is counted in full,
-- whatever it shares with others.
CREATE TABLE class_census (
    time_ns      INTEGER NOT NULL,
    process      INTEGER NOT NULL REFERENCES process (id),
    kind         TEXT    NOT NULL,                      -- class, anonymous, singleton, internal, hidden, unknown or rest
    name         TEXT    NOT NULL,
    objects      INTEGER NOT NULL,
    slot_bytes   INTEGER NOT NULL,
    malloc_bytes INTEGER                                -- usable bytes of the chunks that they own
);

-- Loaded code of Rubies by origin.
CREATE TABLE code_census (
    time_ns      INTEGER NOT NULL,
    process      INTEGER NOT NULL REFERENCES process (id),
    kind         TEXT    NOT NULL,                      -- gem, application, standard_library, ruby, evaluated, directory, unknown or rest
    name         TEXT    NOT NULL,                      -- of a gem or directory, else empty
    version      TEXT,                                  -- of a gem
    sequences    INTEGER NOT NULL,                      -- instruction sequences
    slot_bytes   INTEGER NOT NULL,
    malloc_bytes INTEGER
);

-- The reached objects of a class that had grown, and the object that holds most of them.
CREATE TABLE holder (
    time_ns          INTEGER NOT NULL,
    process          INTEGER NOT NULL REFERENCES process (id),
    kind             TEXT    NOT NULL,                  -- with name: as in class_census
    name             TEXT    NOT NULL,
    objects          INTEGER NOT NULL,                  -- that a root reaches
    bytes            INTEGER NOT NULL,
    holder           TEXT,                              -- NULL: no single object holds a large part of them
    held_objects     INTEGER,                           -- of the class, that would be freed with the holder
    held_bytes       INTEGER,
    retained_bytes   INTEGER,                           -- everything that would be freed with the holder
    retained_objects INTEGER,
    path             TEXT                               -- JSON: [{"by": name, "what": description}, …], the root first
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

-- Steps of the wall clock.
CREATE TABLE clock (
    time_ns INTEGER NOT NULL,
    wall_ns INTEGER NOT NULL
);

-- Cost of the recording itself, from its start to time_ns.
CREATE TABLE cost (
    time_ns            INTEGER NOT NULL,
    cpu_s              REAL    NOT NULL,                -- of the recorder, all threads
    rss_bytes          INTEGER,                         -- of the recorder
    ticks              INTEGER NOT NULL,                -- samples of the tree
    late_ticks         INTEGER NOT NULL,                -- taken more than half an interval late
    missed_ticks       INTEGER NOT NULL,                -- not taken: the one before took too long
    pss_sweeps         INTEGER NOT NULL,                -- readings of pss, uss and swap of the whole tree
    pss_held_s         REAL    NOT NULL,                -- upper bound of the time for which they held a target's mmap lock
    censuses           INTEGER NOT NULL,
    census_s           REAL    NOT NULL,                -- CPU they took; the target is not stopped
    short_lived        INTEGER NOT NULL,                -- processes that came and went between two samples
    short_lived_cpu_s  REAL    NOT NULL
);

-- To keep the file small, only the extremes of the looks before before_ns in each bucket_ns
-- are kept: the highest and lowest RSS and the highest PSS, or the largest census (see thin.rs).
CREATE TABLE thinning (
    what      TEXT    PRIMARY KEY,                      -- sample or census
    before_ns INTEGER NOT NULL,
    bucket_ns INTEGER NOT NULL                          -- time_ns / bucket_ns numbers the buckets
);

-- Experiments: variants, their runs and the outcomes.
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
    outcome    TEXT                                     -- NULL: running or cut short; done; otherwise the failure
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
