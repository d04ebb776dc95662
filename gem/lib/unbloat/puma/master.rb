# frozen_string_literal: true

require "io/wait"

module Unbloat
  module Puma
    # A thread in Puma's master: looks at the workers, asks for reforks, and replaces workers that ask for it, one at a time.
    class Master
      # Seconds for which a census serves `Puma.stats`, and from one replacement to the next.
      FRESH = 5

      class << self
        # @return [IO, nil] where workers write their wishes
        attr_accessor :wishes
      end

      # @param stats [#call] Puma's own figures
      def initialize(launcher, options, log, stats)
        @launcher = launcher
        @options = options
        @log = log
        @stats = stats
        @refork = Refork.new(every: options.refork_every)
        @counts = { reforks: 0, replacements: 0 }
      end

      # Starts the thread, where there is anything to do for it.
      def run
        return unless cluster? && (@options.refork || @options.limit)

        @reader, Master.wishes = IO.pipe
        thread = Thread.new { watch }
        thread.name = "unbloat"
        # Puma counts the threads that an application starts before the fork.
        thread.thread_variable_set(:fork_safe, true)
      end

      # @return [Boolean] true if there are workers
      def cluster?
        @launcher.options[:workers].to_i.positive?
      end

      # @return [Hash] the figures for `Puma.stats`
      def figures
        own = { version: VERSION, policy: @options.policy, limit_bytes: @options.limit&.bytes, workers: (workers if cluster?) }
        own.compact.merge(@counts, refork_figures)
      end

      private

      def refork_figures
        return {} unless @options.refork

        own = { unshared_bytes: @refork.unshared_bytes, gain_bytes: @refork.gain_bytes, no_refork_because: @refork.reason }
        own.merge(@refork.outcome.to_h).compact
      end

      def now
        Process.clock_gettime(Process::CLOCK_MONOTONIC)
      end

      def watch
        loop do
          wish = @reader.gets if @reader.wait_readable(@options.look_every)
          wish ? grant(*wish.split) : look
        rescue IOError
          break
        rescue StandardError => e
          @log.call("unbloat: the plugin goes on after #{e.class}: #{e.message}")
          sleep @options.look_every
        end
      end

      def census
        Census.new(@stats.call)
      end

      def workers
        @seen = [now, census] if @seen.nil? || now - @seen.first > FRESH
        @seen.last.workers.map { |worker| { index: worker.index, pid: worker.pid, pss_bytes: worker.memory.pss, private_bytes: worker.memory.private_bytes } }
      end

      def look
        return unless @options.refork

        census = self.census
        return unless census.settled? && census.mold

        private_bytes = census.forked.to_h { |worker| [worker.pid, worker.memory.private_bytes] }
        look = Refork::Look.new(at: now, private_bytes: private_bytes, pss: census.pss, mold_requests: census.mold.requests)
        before = @refork.outcome
        worth_it = @refork.worth_it?(look)
        tell(@refork.outcome) unless @refork.outcome.equal?(before)
        refork(census) if worth_it
      end

      def tell(outcome)
        @log.call("unbloat: the last refork has brought #{Limit.words(outcome.brought_bytes)}, where #{Limit.words(outcome.expected_bytes)} were expected")
      end

      def refork(census)
        @log.call("unbloat: workers have un-shared #{Limit.words(@refork.unshared_bytes)} since their fork, of #{Limit.words(census.pss)} in all. Refork for " \
                  "about #{Limit.words(@refork.gain_bytes)}")
        ask_for_refork
      end

      def ask_for_refork
        @refork.asked
        @asked_at = now
        return unless @launcher.refork

        Marks.set(:refork)
        @counts[:reforks] += 1
      end

      # A wish of a worker: what, its process ID, its bytes.
      def grant(wish, pid, bytes)
        census = self.census
        worker = census.workers.find { |one| one.pid == pid.to_i }
        # A worker that waits asks again.
        return unless worker && census.settled?

        case wish
        when "refork" then ask_for_refork if @asked_at.nil? || now - @asked_at >= @options.refork_every
        when "replace" then replace(worker, bytes.to_i)
        end
      end

      def replace(worker, bytes)
        return if @replaced_at && now - @replaced_at < FRESH

        @replaced_at = now
        @counts[:replacements] += 1
        Marks.set(:replace)
        @log.call("unbloat: worker #{worker.index} (PID: #{worker.pid}) takes #{Limit.words(bytes)} of #{@options.limit}. Replaced when its requests are done")
        Process.kill(:TERM, worker.pid)
      rescue Errno::ESRCH
        # It has ended by itself.
      end
    end
  end
end
