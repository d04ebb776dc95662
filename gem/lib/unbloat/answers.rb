# frozen_string_literal: true

# The methods of the module without a runtime.
module Unbloat
  # The answers of the module where no runtime is loaded. The runtime defines methods of the same names on the module itself, whenever it
  # is loaded; they are `super` here.
  module Answers
    class << self
      # @return [String, nil] the reason why the runtime is not at work here, if anybody tried
      attr_accessor :reason
    end

    # @return [Hash] the runtime's figures, with `:live` true; or `:live` false and a `:reason`
    def status
      return super.merge(live: true, gem: VERSION) if defined?(super)

      { live: false, gem: VERSION, reason: Answers.reason || Native.reason || "no unbloat run, plugin or Unbloat.boot! so far" }
    end

    # Gives freed memory back now.
    # @return [Integer] bytes by which the resident set shrank; 0 without a runtime
    def trim
      defined?(super) ? super : 0
    end

    # Runs a block without trims.
    # @return [Object] the block's value
    def suspend
      raise ArgumentError, "Unbloat.suspend needs a block" unless block_given?
      return yield unless defined?(super)

      super
    end
  end
  singleton_class.prepend(Answers)

  # @return [Boolean] true if the runtime is loaded into this process
  def self.runtime?
    # Only the runtime defines it.
    respond_to?(:suspend_trimming, true)
  end
end
