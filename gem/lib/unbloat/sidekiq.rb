# frozen_string_literal: true

require "unbloat"
require "unbloat/sidekiq/options"
require "unbloat/sidekiq/jobs"
require "unbloat/sidekiq/rest"

module Unbloat
  # Memory of a Sidekiq process: the policy, collections between jobs, a limit, and what each job leaves behind.
  #
  #     Sidekiq.configure_server do |config|
  #       Unbloat::Sidekiq.attach(config, limit: "600M", log_jobs: true)
  #     end
  module Sidekiq
    class << self
      # @param config [Object] what `Sidekiq.configure_server` yields
      # @param settings [Hash] see {Options}
      # @raise [ConfigurationError] naming file and line, for a setting that makes no sense
      def attach(config, **settings)
        place = caller_locations(1, 1).first
        options = Options.new(place: "#{place.path}:#{place.lineno}", **settings)
        boot(options)
        jobs = Jobs.new(log_jobs: options.log_jobs, log: method(:log))
        config.server_middleware { |chain| chain.add(Jobs::Middleware, jobs) }
        config.on(:startup) { start(options, jobs) }
      end

      private

      def boot(options)
        return unless options.policy

        Boot.new(options.policy, log: method(:log)).call
      rescue ConfigurationError => e
        raise ConfigurationError.at(options.place, "unbloat: #{e.message}"), cause: nil
      end

      # Nothing that goes wrong here reaches a job.
      def start(options, jobs)
        idle = -> { jobs.none? }
        Rest.new(jobs, every: options.collect_every).start if options.collect_every
        return unless options.limit

        Keeper.new(limit: options.limit, every: options.look_every, pressure: options.pressure, idle: idle, log: method(:log),
                   ask: { replace: ->(pss) { leave(pss, options, idle) } }).start
      rescue StandardError => e
        log("unbloat: no limit and no collections: #{e.message}")
      end

      # Quiet, until the jobs are done, then the end: the supervisor starts another.
      def leave(pss, options, idle)
        log("unbloat: PID #{Process.pid} takes #{Limit.words(pss)} of #{options.limit}. Quiet, and ends when its jobs are done")
        Marks.set(:replace)
        Process.kill(:TSTP, Process.pid)
        deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + options.quiet_for
        sleep 0.2 until idle.call || Process.clock_gettime(Process::CLOCK_MONOTONIC) > deadline
        Process.kill(:TERM, Process.pid)
        # The end takes Sidekiq's own timeout.
        sleep
      end

      def log(line)
        ::Sidekiq.logger.info(line)
      end
    end
  end
end
