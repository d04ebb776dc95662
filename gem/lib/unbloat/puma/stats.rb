# frozen_string_literal: true

require "json"

module Unbloat
  module Puma
    # The key `unbloat` in `Puma.stats` and in the answers of the control server.
    module Stats
      # @param launcher [Puma::Launcher]
      # @return [#call] Puma's own figures, for the plugin's looks
      def self.plain(launcher)
        runner = runner_of(launcher)
        own = runner ? runner.method(:stats).unbind.bind(runner) : launcher.method(:stats)
        -> { of_cluster(runner) || read(own.call) }
      end

      # @param launcher [Puma::Launcher]
      # @param figures [#call] answers what stands below the key
      def self.install(launcher, figures)
        runner = runner_of(launcher) or return
        runner.instance_variable_set(:@unbloat, figures)
        runner.extend(self)
      end

      def self.runner_of(launcher)
        runner = launcher.instance_variable_get(:@runner)
        runner if runner.respond_to?(:stats)
      end

      # The figures of a cluster where `Cluster#stats` would begin its maxima anew (`backlog_max`, `reactor_max`), as since Puma 7: those belong
      # to whoever reads `Puma.stats`.
      def self.of_cluster(runner)
        workers = runner.instance_variable_get(:@workers)
        return unless workers.is_a?(Array) && workers.first.respond_to?(:reset_max)

        phase = runner.instance_variable_get(:@phase)
        status = workers.map { |worker| { index: worker.index, pid: worker.pid, last_status: worker.last_status } }
        old = workers.count { |worker| worker.phase != phase }
        { workers: workers.size, booted_workers: workers.count(&:booted?), old_workers: old, worker_status: status }
      end

      # Puma 4 answers JSON.
      def self.read(stats)
        stats.is_a?(String) ? JSON.parse(stats, symbolize_names: true) : stats
      end
      private_class_method :runner_of, :of_cluster, :read

      # Puma's figures with the key, in Puma's own form.
      # @return [Hash, String]
      def stats
        own = super
        return own.merge(unbloat: figures_of_unbloat) if own.is_a?(Hash)

        JSON.generate(JSON.parse(own).merge("unbloat" => figures_of_unbloat))
      end

      private

      # Puma's own figures are worth more than ours.
      def figures_of_unbloat
        @unbloat.call
      rescue StandardError => e
        { error: e.message }
      end
    end
  end
end
