# frozen_string_literal: true

module Unbloat
  module Sidekiq
    # Full collections while no job runs: then nobody waits for them, and what jobs have left goes back at once.
    class Rest
      # @param jobs [Jobs]
      # @param every [Numeric] seconds between two collections at least
      def initialize(jobs, every:)
        @jobs = jobs
        @every = every
        @seen = 0
      end

      # @return [Thread]
      def start
        Thread.new { loop { look } }.tap { |thread| thread.name = "unbloat rest" }
      end

      private

      def look
        sleep @every
        # Where no job has ended there is nothing to collect.
        return if @jobs.done == @seen

        sleep 0.1 until @jobs.none?
        @seen = @jobs.done
        GC.start
        Unbloat.trim
      end
    end
  end
end
