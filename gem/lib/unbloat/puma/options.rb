# frozen_string_literal: true

require "unbloat/settings"

module Unbloat
  module Puma
    # The settings of the plugin, checked.
    class Options
      include Settings

      # Seconds between two reforks.
      REFORK_EVERY = 600
      # Seconds between two looks at memory.
      LOOK_EVERY = 10
      # All settings.
      NAMES = %i[policy refork refork_every limit pressure look_every].freeze

      # @return [String, nil] file and line where they are written
      attr_reader :place
      # @return [String] as `unbloat run --policy` takes it
      attr_reader :policy
      # @return [Symbol, nil] `:adaptive`, or nil for none
      attr_reader :refork
      # @return [Numeric] seconds between two reforks at least
      attr_reader :refork_every
      # @return [Limit::Size, nil] what a worker may take (PSS)
      attr_reader :limit
      # @return [Numeric, nil] percent of time in which tasks wait for memory (PSI) from which on memory is released
      attr_reader :pressure
      # @return [Numeric] seconds between two looks
      attr_reader :look_every

      def initialize(place: nil, **settings)
        @place = place
        known(settings, NAMES)
        @policy = policy_of(settings.fetch(:policy, Boot::DEFAULT_POLICY))
        @refork = refork_of(settings[:refork])
        @refork_every = seconds(:refork_every, settings.fetch(:refork_every, REFORK_EVERY))
        @limit = limit_of(settings[:limit])
        @pressure = pressure_of(settings.fetch(:pressure, 10))
        @look_every = seconds(:look_every, settings.fetch(:look_every, LOOK_EVERY))
      end

      # Checks them against Puma's.
      # @param puma [#[]] the launcher's options
      def check(puma)
        return unless refork

        wrong("refork: :adaptive needs fork_worker, which is not set") unless puma[:fork_worker]
        wrong("refork: :adaptive needs two workers or more") unless puma[:workers].to_i > 1
        return unless puma[:preload_app] && ::Puma::Const::PUMA_VERSION.to_i < 6

        wrong("refork: :adaptive needs preload_app! false with Puma 5 (WEB_CONCURRENCY switches it on)")
      end

      private

      def refork_of(value)
        return if value.nil? || value == false
        return :adaptive if value.to_s == "adaptive"

        wrong("refork: is :adaptive or false, not #{value.inspect}")
      end
    end
  end
end
