# frozen_string_literal: true

module Unbloat
  module Puma
    # The key `unbloat` in `Puma.stats` and in the answers of the control server.
    module Stats
      # @param launcher [Puma::Launcher]
      # @return [#call] Puma's own figures
      def self.plain(launcher)
        runner = runner_of(launcher)
        runner ? runner.method(:stats).unbind.bind(runner) : launcher.method(:stats)
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
      private_class_method :runner_of

      def stats
        super.merge(unbloat: @unbloat.call)
      rescue StandardError => e
        # Puma's own figures are worth more than ours.
        super.merge(unbloat: { error: e.message })
      end
    end
  end
end
