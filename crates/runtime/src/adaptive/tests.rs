//! The state machine on a simulated process.

use super::account::PAGE_BYTES;
use super::*;

const SECOND: u64 = 1_000 * MILLISECOND;

/// A simulated process, and the machine that watches it.
struct Scene {
    now: Observation,
    machine: Adaptive,
}

impl Scene {
    fn new(settings: Settings) -> Self {
        let now = Observation { now_ns: SECOND, resident_bytes: 100 * MIB, ..Observation::default() };
        Self { now, machine: Adaptive::new(settings, now) }
    }

    /// Lets time pass on a busy core, with one minor collection.
    fn work(&mut self, ns: u64) -> &mut Self {
        self.now.now_ns += ns;
        self.now.cpu_ns += ns;
        self.now.collections += 1;
        self
    }

    /// Lets time pass without any work.
    fn idle(&mut self, ns: u64) -> &mut Self {
        self.now.now_ns += ns;
        self
    }

    fn grow(&mut self, bytes: u64) -> &mut Self {
        self.now.resident_bytes += bytes;
        self.now.minor_faults += bytes / PAGE_BYTES;
        self
    }

    /// Makes the allocator return pages on its own.
    fn give_back(&mut self, pages: u64) -> &mut Self {
        self.now.returned_pages = Some(self.now.returned_pages.unwrap_or(0) + pages);
        self
    }

    fn decide(&mut self) -> Decision {
        self.machine.decide(&self.now)
    }

    fn reason(&mut self) -> Reason {
        match self.decide() {
            Decision::Wait { reason, .. } => reason,
            Decision::Trim { .. } => Reason::Trimmed,
        }
    }

    fn trim(&mut self, returned: u64, took_ns: u64) {
        let before_bytes = self.now.resident_bytes;
        self.now.now_ns += took_ns;
        self.now.resident_bytes -= returned;
        self.machine.trimmed(&TrimOutcome { after: self.now, before_bytes, took_ns });
    }
}

#[test]
fn growth_after_a_collection_is_trimmed() {
    let mut scene = Scene::new(Settings::default());
    assert_eq!(scene.work(SECOND).grow(7 * MIB).reason(), Reason::NoGrowth);
    assert_eq!(scene.work(SECOND).grow(2 * MIB).decide(), Decision::Trim { idle: false });
}

#[test]
fn growth_without_a_collection_is_left_alone() {
    let mut scene = Scene::new(Settings::default());
    assert_eq!(scene.idle(SECOND).grow(500 * MIB).reason(), Reason::NothingHeard);
}

#[test]
fn the_share_of_a_large_process_counts_more_than_the_bytes() {
    let mut scene = Scene::new(Settings::default());
    scene.grow(900 * MIB).work(SECOND).decide();
    scene.trim(0, 0);
    scene.machine.backoff = 1;
    assert_eq!(scene.work(SECOND).grow(49 * MIB).reason(), Reason::NoGrowth);
    assert_eq!(scene.work(SECOND).grow(2 * MIB).reason(), Reason::Trimmed);
}

#[test]
fn the_interval_is_counted_from_the_end_of_the_last_trim() {
    let mut scene = Scene::new(Settings::default());
    scene.work(SECOND).grow(20 * MIB).decide();
    scene.trim(20 * MIB, MILLISECOND);
    assert_eq!(scene.work(200 * MILLISECOND).grow(20 * MIB).reason(), Reason::TooSoon);
    assert_eq!(scene.work(51 * MILLISECOND).reason(), Reason::Trimmed);
}

#[test]
fn time_spent_is_paid_for_before_the_next_trim() {
    let mut scene = Scene::new(Settings::default());
    scene.work(SECOND).grow(64 * MIB).decide();
    // 130 ms at one percent: 100 ms were in the account, 30 ms are three seconds' worth.
    scene.trim(64 * MIB, 130 * MILLISECOND);
    scene.now.minor_faults = 0;
    assert_eq!(scene.work(2 * SECOND).grow(0).reason(), Reason::NoGrowth);
    scene.now.resident_bytes += 64 * MIB;
    assert_eq!(scene.work(SECOND / 2).reason(), Reason::CpuBudget);
    assert_eq!(scene.work(SECOND).reason(), Reason::Trimmed);
}

#[test]
fn pages_needed_again_at_once_are_paid_for_and_named() {
    let mut scene = Scene::new(Settings::default());
    scene.work(SECOND).grow(1024 * MIB).decide();
    scene.trim(1024 * MIB, MILLISECOND);
    assert_eq!(scene.work(SECOND).grow(1024 * MIB).reason(), Reason::Refaulted);
    assert_eq!(scene.machine.take_refaults(), 1024 * MIB / PAGE_BYTES);
    assert_eq!(scene.machine.take_refaults(), 0);
    // 183 ms of faults against 100 ms in the account: paid off nine seconds later.
    assert_eq!(scene.work(10 * SECOND).reason(), Reason::Trimmed);
}

#[test]
fn faults_that_do_not_grow_the_process_are_not_refaults() {
    let mut scene = Scene::new(Settings::default());
    scene.work(SECOND).grow(64 * MIB).decide();
    scene.trim(64 * MIB, MILLISECOND);
    scene.now.minor_faults += 100_000;
    scene.work(SECOND).decide();
    assert_eq!(scene.machine.take_refaults(), 0);
}

#[test]
fn fruitless_trims_ask_for_ever_more() {
    let mut scene = Scene::new(Settings::default());
    let mut trims = 0;
    for _ in 0..200 {
        scene.work(SECOND).grow(9 * MIB);
        if scene.decide() == (Decision::Trim { idle: false }) {
            scene.trim(0, 10 * MILLISECOND);
            trims += 1;
        }
    }
    assert!(trims < 12, "{trims} trims that brought nothing");
    scene.work(10 * SECOND).grow(2_000 * MIB).decide();
    scene.trim(1_000 * MIB, 20 * MILLISECOND);
    assert_eq!(scene.machine.backoff, 1, "one fruitful trim is trusted");
}

#[test]
fn a_full_collection_counts_once_it_is_swept() {
    let mut scene = Scene::new(Settings::default());
    scene.work(SECOND);
    scene.now.majors += 1;
    assert_eq!(scene.reason(), Reason::NoGrowth);
    assert_eq!(scene.work(100 * MILLISECOND).reason(), Reason::Trimmed);
    scene.trim(30 * MIB, MILLISECOND);
    scene.work(SECOND);
    scene.now.majors += 1;
    assert_eq!(scene.reason(), Reason::NoGrowth);
    scene.now.cpu_ns += 600 * MILLISECOND;
    assert_eq!(scene.idle(600 * MILLISECOND).reason(), Reason::Trimmed);
}

#[test]
fn what_the_allocator_knows_counts_more_than_the_resident_set() {
    let mut scene = Scene::new(Settings::default());
    scene.now.returnable_bytes = Some(0);
    assert_eq!(scene.work(SECOND).grow(100 * MIB).reason(), Reason::NoGrowth);
    scene.now.returnable_bytes = Some(40 * MIB);
    assert_eq!(scene.work(SECOND).reason(), Reason::Trimmed);
}

#[test]
fn falling_idle_returns_the_rest_once_and_then_sleeps() {
    let mut scene = Scene::new(Settings::default());
    scene.machine.account.overdraw();
    assert_eq!(scene.work(SECOND).grow(50 * MIB).reason(), Reason::CpuBudget);
    let Decision::Wait { look_again_ns: Some(pause), .. } = scene.idle(MILLISECOND).decide() else {
        panic!("a process that has worked is looked at again");
    };
    assert!(pause <= SECOND);
    assert_eq!(scene.idle(SECOND).decide(), Decision::Trim { idle: true });
    scene.trim(50 * MIB, 10 * MILLISECOND);
    let sleep = scene.idle(10 * SECOND).decide();
    assert!(matches!(sleep, Decision::Wait { look_again_ns: None, .. }), "{sleep:?}");
    // It works again and rests again: once more.
    scene.work(SECOND).decide();
    scene.idle(MILLISECOND).decide();
    assert_eq!(scene.idle(2 * SECOND).decide(), Decision::Trim { idle: true });
}

#[test]
fn a_collection_is_no_rest_however_little_else_there_was() {
    let mut scene = Scene::new(Settings::default());
    scene.machine.account.overdraw();
    for _ in 0..10 {
        // Ten seconds, with a collection in the last milliseconds.
        scene.idle(10 * SECOND).work(MILLISECOND).grow(50 * MIB);
        assert_ne!(scene.decide(), Decision::Trim { idle: true });
    }
    assert_eq!(scene.idle(SECOND).decide(), Decision::Trim { idle: true });
}

#[test]
fn a_full_collection_during_a_trim_is_not_forgotten() {
    let mut scene = Scene::new(Settings::default());
    scene.work(SECOND).grow(20 * MIB).decide();
    scene.now.majors += 1;
    scene.now.collections += 1;
    scene.trim(20 * MIB, MILLISECOND);
    scene.now.cpu_ns += SECOND;
    scene.idle(SECOND).decide();
    scene.now.cpu_ns += SECOND;
    assert_eq!(scene.idle(SECOND).reason(), Reason::Trimmed);
}

#[test]
fn a_resident_set_that_could_not_be_read_is_neither_a_floor_nor_a_gain() {
    let start = Observation { now_ns: SECOND, ..Observation::default() };
    let mut scene = Scene { now: start, machine: Adaptive::new(Settings::default(), start) };
    scene.now.resident_bytes = 500 * MIB;
    assert_eq!(scene.work(SECOND).reason(), Reason::NoGrowth);
    let unread = TrimOutcome { after: start, before_bytes: 500 * MIB, took_ns: MILLISECOND };
    assert_eq!(unread.returned_bytes(), 0);
    scene.machine.trimmed(&unread);
    assert_eq!(scene.machine.floor_bytes, 500 * MIB);
}

#[test]
fn a_long_trim_is_left_until_the_process_is_idle() {
    let mut scene = Scene::new(Settings::default());
    scene.now.hold_ns = 21 * MILLISECOND;
    for _ in 0..100 {
        assert_eq!(scene.work(SECOND).grow(20 * MIB).reason(), Reason::TooLong);
    }
    scene.idle(MILLISECOND).decide();
    assert_eq!(scene.idle(SECOND).decide(), Decision::Trim { idle: true });
    scene.trim(2_000 * MIB, 150 * MILLISECOND);
    scene.now.hold_ns = 20 * MILLISECOND;
    assert_eq!(scene.work(20 * SECOND).grow(200 * MIB).decide(), Decision::Trim { idle: false });
}

#[test]
fn a_long_trim_has_to_be_worth_it_even_when_idle() {
    let mut scene = Scene::new(Settings::default());
    scene.now.hold_ns = SECOND;
    scene.work(SECOND).decide();
    scene.idle(MILLISECOND).decide();
    let nothing_to_gain = scene.idle(SECOND).decide();
    assert_eq!(nothing_to_gain, Decision::Wait { reason: Reason::NoGrowth, look_again_ns: None });
    // The account of a process that always has a little to do: 2 s of trim are paid off by 190 s.
    scene.work(SECOND).grow(50 * MIB).decide();
    scene.idle(MILLISECOND).decide();
    assert_eq!(scene.idle(SECOND).decide(), Decision::Trim { idle: true });
    scene.trim(50 * MIB, 2 * SECOND);
    scene.work(SECOND).grow(50 * MIB).decide();
    scene.idle(MILLISECOND).decide();
    let Decision::Wait { reason: Reason::Refaulted, look_again_ns: Some(_) } = scene.idle(SECOND).decide()
    else {
        panic!("the rest is not given up for a reason that passes");
    };
    assert_eq!(scene.idle(300 * SECOND).decide(), Decision::Trim { idle: true });
}

#[test]
fn a_busy_process_is_never_idle() {
    let mut scene = Scene::new(Settings { budget_permille: 0, ..Settings::default() });
    scene.machine.account.overdraw();
    for _ in 0..100 {
        let decision = scene.work(SECOND).grow(MIB).decide();
        assert!(matches!(decision, Decision::Wait { look_again_ns: Some(_), .. }), "{decision:?}");
    }
}

/// Returns the mode of an allocator that is controllable and obeys.
fn told(scene: &mut Scene) -> Option<Returning> {
    scene.decide();
    scene.now.returning = scene.machine.returning();
    scene.now.returning
}

#[test]
fn freed_memory_goes_back_at_once_while_its_faults_are_paid_for() {
    let mut scene = Scene::new(Settings::default());
    scene.now.returning = Some(Returning::Later);
    assert_eq!(told(scene.give_back(0).work(SECOND)), Some(Returning::AtOnce));
    // Growth is not the policy's fault.
    assert_eq!(told(scene.work(SECOND).grow(2_000 * MIB)), Some(Returning::AtOnce));
    // 100 ms are in the account. Returning 40,000 pages and faulting them in again costs 144 ms.
    scene.give_back(40_000).now.minor_faults += 40_000;
    assert_eq!(told(scene.work(SECOND)), Some(Returning::Later));
    assert_eq!(scene.machine.take_refaults(), 40_000);
    // From then on faults are the program's own. The debt is paid off after 4 s, and the account is full
    // after ten more.
    scene.now.minor_faults += 40_000;
    assert_eq!(told(scene.work(13 * SECOND)), Some(Returning::Later));
    assert_eq!(told(scene.idle(2 * SECOND)), Some(Returning::AtOnce));
}

#[test]
fn memory_that_goes_back_is_paid_for_even_if_nobody_needs_it_again() {
    let mut scene = Scene::new(Settings::default());
    scene.now.returning = Some(Returning::Later);
    assert_eq!(told(scene.give_back(0).work(SECOND).grow(500 * MIB)), Some(Returning::AtOnce));
    // 51,200 pages at 2.9 us are 148 ms in the thread that freed them.
    scene.now.resident_bytes -= 200 * MIB;
    assert_eq!(told(scene.give_back(51_200).work(SECOND)), Some(Returning::Later));
    assert_eq!(scene.machine.take_refaults(), 0);
}

#[test]
fn faults_of_a_worker_that_unshares_what_it_has_from_its_master_are_not_paid_for() {
    let mut scene = Scene::new(Settings::default());
    scene.now.returning = Some(Returning::AtOnce);
    // a write to a shared page is a fault, but leaves the resident set unchanged
    scene.now.minor_faults += 1_000_000;
    assert_eq!(told(scene.give_back(0).work(SECOND)), Some(Returning::AtOnce));
    assert_eq!(scene.machine.take_refaults(), 0);
}

#[test]
fn an_allocator_that_does_not_count_what_it_gives_back_keeps_its_delay() {
    let mut scene = Scene::new(Settings::default());
    scene.now.returning = Some(Returning::Later);
    assert_eq!(told(scene.work(SECOND)), None);
}

#[test]
fn what_a_trim_returns_is_not_paid_for_twice() {
    let mut scene = Scene::new(Settings::default());
    scene.now.returning = Some(Returning::AtOnce);
    scene.work(SECOND).grow(200 * MIB).decide();
    scene.give_back(51_200).trim(200 * MIB, MILLISECOND);
    assert_eq!(told(scene.work(SECOND)), Some(Returning::AtOnce));
}

#[test]
fn an_allocator_that_cannot_be_told_is_not_and_its_faults_are_its_own() {
    let mut scene = Scene::new(Settings::default());
    scene.now.minor_faults += 1_000_000;
    assert_eq!(told(scene.work(SECOND)), None);
    assert_eq!(scene.machine.take_refaults(), 0);
}

#[test]
fn without_a_budget_nothing_goes_back_at_once() {
    let mut scene = Scene::new(Settings { budget_permille: 0, ..Settings::default() });
    scene.now.returning = Some(Returning::Later);
    assert_eq!(told(scene.give_back(0).work(SECOND)), Some(Returning::Later));
}
