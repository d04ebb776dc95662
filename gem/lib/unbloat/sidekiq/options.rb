# frozen_string_literal: true

require "unbloat/settings"

module Unbloat
  module Sidekiq
    # The settings of {Sidekiq.attach}, checked.
    class Options
      include Settings

      # All settings.
      NAMES = %i[policy limit pressure look_every collect_every quiet_for log_jobs].freeze

      # @return [String] file and line where they are written
      attr_reader :place
      # @return [String, nil] as `unbloat run --policy` takes it; nil leaves the process as it was started
      attr_reader :policy
      # @return [Limit::Size, nil] what the process may take (PSS)
      attr_reader :limit
      # @return [Numeric, nil] percent of time in which tasks wait for memory (PSI) from which on memory is released
      attr_reader :pressure
      # @return [Numeric] seconds between two looks
      attr_reader :look_every
      # @return [Numeric, nil] seconds between two full collections while no job runs, at least
      attr_reader :collect_every
      # @return [Numeric] seconds that jobs are given to end before a replacement
      attr_reader :quiet_for
      # @return [Boolean] true if each job's memory goes into the log
      attr_reader :log_jobs

      def initialize(place:, **settings)
        @place = place
        known(settings, NAMES)
        policy = settings.fetch(:policy, Boot::DEFAULT_POLICY)
        @policy = policy && policy_of(policy)
        @limit = limit_of(settings[:limit])
        @pressure = pressure_of(settings.fetch(:pressure, 10))
        @look_every = seconds(:look_every, settings.fetch(:look_every, 10))
        collect_every = settings.fetch(:collect_every, 60)
        @collect_every = collect_every && seconds(:collect_every, collect_every)
        @quiet_for = seconds(:quiet_for, settings.fetch(:quiet_for, 600))
        @log_jobs = settings.fetch(:log_jobs, false) ? true : false
      end
    end
  end
end
