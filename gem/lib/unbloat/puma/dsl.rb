# frozen_string_literal: true

require "puma/configuration"

module Unbloat
  module Puma
    # What `plugin :unbloat` adds to the language of `config/puma.rb`.
    module DSL
      # Settings of the plugin; all may be left out.
      #
      # @param settings [Hash] see {Options}
      # @raise [ConfigurationError] naming file and line, for a setting that makes no sense
      def unbloat(**settings)
        place = caller_locations(1, 1).first
        options = Options.new(place: "#{place.path}:#{place.lineno}", **settings)
        @options[:unbloat] = options
        return unless options.limit

        hook = respond_to?(:before_worker_boot) ? :before_worker_boot : :on_worker_boot
        public_send(hook) { |index| Worker.start(index, options) }
      end
    end

    # Puma's way of ending a file of settings. After `prune_bundler` only gems can be loaded that are named in these settings.
    module Pruning
      # Names this gem; called by Puma.
      def _offer_plugins
        @options[:extra_runtime_dependencies] = Array(@options[:extra_runtime_dependencies]) | ["unbloat"]
        super
      end
    end
  end
end

Puma::DSL.class_eval do
  include Unbloat::Puma::DSL
  prepend Unbloat::Puma::Pruning
end
