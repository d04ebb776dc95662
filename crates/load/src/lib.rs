//! Load drivers: Action Cable broadcast, HTTP, Sidekiq jobs; schedules; latency histograms.
