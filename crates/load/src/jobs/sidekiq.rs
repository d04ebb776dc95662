//! Sidekiq's data in Redis, as written by its client and read by its processes.
//!
//! Sources (Sidekiq 6.4 and 7.3): `lib/sidekiq/client.rb` (`LPUSH queue:NAME`, `SADD queues`),
//! `lib/sidekiq/job_util.rb` (the payload), `lib/sidekiq/launcher.rb` (the set `processes`, and a hash for
//! each with its `info`), `lib/sidekiq/fetch.rb` (idle threads block in `BRPOP`), `lib/sidekiq/job_retry.rb`
//! (a job with `retry: 0` that fails goes to the set `dead` at once, with `error_class` and `error_message`).

use super::Error;
use redis::Connection;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::{SystemTime, UNIX_EPOCH};

/// Jobs per command when all are pushed at once, as in `Sidekiq::Client.push_bulk`.
pub(super) const BULK: usize = 1_000;

/// A connection to Sidekiq's Redis.
pub(super) struct Sidekiq {
    redis: Connection,
    queue: String,
    class: String,
    arguments: String,
    /// Prefix of every job ID of this run.
    run: u32,
}

/// The state of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Look {
    /// Number of waiting jobs.
    pub(super) waiting: u64,
    /// Clients of this Redis that block: Sidekiq's idle threads, and perhaps others.
    pub(super) blocked: u64,
}

/// The Sidekiq processes as registered by themselves.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Workers {
    pub(super) processes: u64,
    pub(super) threads: u64,
    pub(super) queues: Vec<String>,
}

/// A job that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failed {
    pub(super) class: String,
    pub(super) message: String,
}

/// The relevant part of a process's `info`.
#[derive(Debug, Deserialize)]
struct Info {
    #[serde(default)]
    concurrency: u64,
    #[serde(default)]
    queues: Vec<String>,
}

impl Sidekiq {
    /// Connects to the Redis.
    pub(super) fn connect(plan: &super::JobsOptions, run: u32) -> Result<Self, Error> {
        let client = redis::Client::open(plan.url.as_str())
            .map_err(|error| Error::Url { url: plan.url.clone(), cause: error.to_string() })?;
        let connected = client.get_connection_with_timeout(std::time::Duration::from_secs(10));
        let mut redis =
            connected.map_err(|cause| Error::Connect { url: without_password(&plan.url), cause })?;
        let (): () = redis::cmd("PING").query(&mut redis)?;
        Ok(Self {
            redis,
            queue: plan.queue.clone(),
            class: plan.class.clone(),
            arguments: plan.arguments.to_string(),
            run,
        })
    }

    /// Returns the live Sidekiq processes.
    pub(super) fn workers(&mut self) -> Result<Workers, Error> {
        let names: Vec<String> = redis::cmd("SMEMBERS").arg("processes").query(&mut self.redis)?;
        let mut workers = Workers::default();
        for name in names {
            // A process that died leaves its name in the set, but its hash expires after a minute.
            let info: Option<String> = redis::cmd("HGET").arg(name).arg("info").query(&mut self.redis)?;
            if let Some(info) = info.and_then(|text| serde_json::from_str::<Info>(&text).ok()) {
                workers.processes += 1;
                workers.threads += info.concurrency;
                workers.queues.extend(info.queues);
            }
        }
        workers.queues.sort();
        workers.queues.dedup();
        Ok(workers)
    }

    /// Reads the state of the queue.
    pub(super) fn look(&mut self) -> Result<Look, Error> {
        let (waiting, info): (u64, String) = redis::pipe()
            .atomic()
            .cmd("LLEN")
            .arg(self.key())
            .cmd("INFO")
            .arg("clients")
            .query(&mut self.redis)?;
        let blocked =
            info.lines().find_map(|line| line.strip_prefix("blocked_clients:")?.trim().parse().ok());
        Ok(Look { waiting, blocked: blocked.unwrap_or(0) })
    }

    /// Pushes the jobs with these numbers.
    pub(super) fn push(&mut self, numbers: std::ops::Range<u32>) -> Result<(), Error> {
        let jobs: Vec<String> = numbers.map(|number| self.payload(number)).collect();
        let mut push = redis::pipe();
        push.cmd("SADD").arg("queues").arg(&self.queue).ignore();
        push.cmd("LPUSH").arg(self.key()).arg(jobs).ignore();
        let (): () = push.query(&mut self.redis)?;
        Ok(())
    }

    /// Removes this run's failed jobs from the dead set and returns them.
    pub(super) fn take_failed(&mut self) -> Result<Vec<Failed>, Error> {
        let since = format!("{:.3}", now_s() - 3_600.0);
        let dead: Vec<String> =
            redis::cmd("ZRANGEBYSCORE").arg("dead").arg(since).arg("+inf").query(&mut self.redis)?;
        let mut failed = Vec::new();
        for text in dead {
            let Ok(job) = serde_json::from_str::<Value>(&text) else { continue };
            if !job["jid"].as_str().is_some_and(|jid| jid.starts_with(&self.id_prefix())) {
                continue;
            }
            let (): () = redis::cmd("ZREM").arg("dead").arg(&text).query(&mut self.redis)?;
            let field = |name: &str| job[name].as_str().unwrap_or("unknown").to_owned();
            failed.push(Failed { class: field("error_class"), message: field("error_message") });
        }
        Ok(failed)
    }

    /// Removes this run's waiting jobs from the queue and returns their number.
    pub(super) fn withdraw(&mut self) -> Result<u64, Error> {
        let waiting: Vec<String> =
            redis::cmd("LRANGE").arg(self.key()).arg(0).arg(-1).query(&mut self.redis)?;
        let (key, ours) = (self.key(), self.id_prefix());
        let mut withdrawn = 0;
        for text in waiting.iter().filter(|text| text.contains(&ours)) {
            withdrawn += redis::cmd("LREM").arg(&key).arg(1).arg(text).query::<u64>(&mut self.redis)?;
        }
        Ok(withdrawn)
    }

    fn key(&self) -> String {
        format!("queue:{}", self.queue)
    }

    fn id_prefix(&self) -> String {
        format!("ab10a7{:08x}", self.run)
    }

    /// Builds a job like `Sidekiq::JobUtil#normalize_item`. Times are seconds as a float, which Sidekiq 8
    /// still reads.
    fn payload(&self, number: u32) -> String {
        let text = self.arguments.replace("{{n}}", &number.to_string());
        // Replacing a number within a string keeps valid JSON valid.
        let arguments: Value = serde_json::from_str(&text).unwrap_or_default();
        let now = now_s();
        json!({
            "class": self.class,
            "args": arguments,
            "queue": self.queue,
            "retry": 0,
            "jid": format!("{}{number:010x}", self.id_prefix()),
            "created_at": now,
            "enqueued_at": now,
        })
        .to_string()
    }
}

fn now_s() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Returns a URL without its password.
pub(super) fn without_password(text: &str) -> String {
    match url::Url::parse(text) {
        Ok(mut url) if url.password().is_some() => {
            // Fails only for URLs that cannot have a password.
            let _ = url.set_password(Some("***"));
            url.to_string()
        }
        _ => text.to_owned(),
    }
}
