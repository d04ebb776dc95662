# frozen_string_literal: true

module Unbloat
  module Puma
    # The workers of a cluster as Puma and the kernel see them at one moment.
    class Census
      # A worker: its number, its process, the requests that it has served, and a {Linux::Memory}.
      Worker = Struct.new(:index, :pid, :requests, :memory, keyword_init: true)

      # @return [Array<Worker>] those whose memory could be read
      attr_reader :workers

      # @param stats [Hash] `Puma.stats_hash`
      def initialize(stats)
        @stats = stats
        @workers = stats.fetch(:worker_status, []).map { |status| worker(status) }.select(&:memory)
      end

      # @return [Boolean] true if no worker is starting, ending or of another phase
      def settled?
        @stats[:booted_workers] == @stats[:workers] && @stats[:old_workers].to_i.zero? && workers.size == @stats[:workers]
      end

      # @return [Array<Worker>] workers other than the one that new ones are forked from
      def forked
        workers.reject { |worker| worker.index.zero? }
      end

      # @return [Worker, nil] the worker that new ones are forked from
      def mold
        workers.find { |worker| worker.index.zero? }
      end

      # @return [Integer] bytes of all workers together
      def pss
        workers.sum { |worker| worker.memory.pss }
      end

      private

      def worker(status)
        requests = status.dig(:last_status, :requests_count).to_i
        memory = Linux.memory(status[:pid]) if status[:pid]
        Worker.new(index: status[:index], pid: status[:pid], requests: requests, memory: memory)
      end
    end
  end
end
