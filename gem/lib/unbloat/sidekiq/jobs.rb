# frozen_string_literal: true

module Unbloat
  module Sidekiq
    # The jobs that run now, and what each leaves behind.
    class Jobs
      # @return [Integer] jobs that have ended
      attr_reader :done

      def initialize(log_jobs:, log:)
        @log_jobs = log_jobs
        @log = log
        @running = @done = 0
        @mutex = Mutex.new
      end

      # @return [Boolean] true if no job runs
      def none?
        @running.zero?
      end

      # Runs a job.
      # @yield the job
      # @return [Object] its value
      def follow(name, jid, &job)
        @mutex.synchronize { @running += 1 }
        @log_jobs ? logged(name, jid, &job) : yield
      ensure
        @mutex.synchronize do
          @running -= 1
          @done += 1
        end
      end

      # Sidekiq's server middleware.
      class Middleware
        def initialize(jobs)
          @jobs = jobs
        end

        # `job` is the hash of the job, in all versions of Sidekiq.
        def call(_worker, job, _queue, &block)
          @jobs.follow(job["wrapped"] || job["class"], job["jid"], &block)
        end
      end

      private

      # Other jobs that run beside it count as well.
      def logged(name, jid)
        resident = Linux.resident
        objects = GC.stat(:total_allocated_objects)
        yield
      ensure
        grown = (Linux.resident.to_i - resident.to_i) / (1 << 20).to_f
        made = GC.stat(:total_allocated_objects) - objects
        beside = @running > 1 ? ", beside #{@running - 1} others" : ""
        @log.call(format("unbloat: #{name} JID-#{jid} resident %+.1f MiB, #{made} objects#{beside}", grown))
      end
    end
  end
end
