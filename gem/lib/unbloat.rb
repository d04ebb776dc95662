# frozen_string_literal: true

require "unbloat/version"
require "unbloat/answers"

# Keeps the memory of Ruby servers small.
#
# In a process that has the runtime (`unbloat run`, `plugin :unbloat`, {boot!}) the runtime's own methods answer. Elsewhere, also on
# platforms for which there is none, the same methods are there and do nothing; {status} says why.
module Unbloat
  # The parent of all errors of the gem.
  class Error < StandardError; end

  # A setting that makes no sense. Its backtrace is the line of the setting alone, so that Ruby prints one line.
  class ConfigurationError < Error
    # @param message [String] the sentence
    # @param place [String, nil] file and line of the setting
    # @return [ConfigurationError]
    def self.at(place, message)
      new(message).tap { |error| error.set_backtrace([place].compact) }
    end
  end

  autoload :Boot, "unbloat/boot"
  autoload :CommandLine, "unbloat/command_line"
  autoload :Keeper, "unbloat/keeper"
  autoload :Limit, "unbloat/limit"
  autoload :Linux, "unbloat/linux"
  autoload :Marks, "unbloat/marks"
  autoload :Measurement, "unbloat/measurement"
  autoload :Native, "unbloat/native"
  autoload :Refork, "unbloat/refork"
  autoload :Sidekiq, "unbloat/sidekiq"

  # Makes this process lean: starts its program again, once, with the policy's allocator, or loads the runtime where no preload
  # is needed. To be called early. The recommended way stays `unbloat run`.
  #
  # @param policy [String] as `unbloat run --policy` takes it
  # @return [Boolean] true if the policy is live here; {status} says why not
  # @raise [ConfigurationError] for a policy that does not exist
  def self.boot!(policy: Boot::DEFAULT_POLICY)
    Boot.new(policy).call
  end

  # Measures what a block leaves behind.
  #
  # @yield the code to measure
  # @return [Measurement] live, freed and returned bytes, and the block's value
  def self.measure(&block)
    Measurement.of(&block)
  end
end

require "unbloat/railtie" if defined?(Rails::Railtie)
