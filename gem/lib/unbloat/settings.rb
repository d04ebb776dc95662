# frozen_string_literal: true

module Unbloat
  # Checks that the settings of Puma's and of Sidekiq's plugin share. A wrong one ends in a sentence with its file and line.
  module Settings
    private

    def wrong(sentence)
      raise ConfigurationError.at(place, "unbloat: #{sentence}"), cause: nil
    end

    def known(settings, names)
      unknown = settings.keys - names
      wrong("there is no setting #{unknown.first}; there are #{names.join(', ')}") unless unknown.empty?
    end

    def policy_of(value)
      wrong("policy: is a String such as \"lean\", not #{value.inspect}") unless value.is_a?(String) || value.is_a?(Symbol)
      complaint = complaint_of(value)
      wrong(complaint) if complaint
      value.to_s
    end

    def complaint_of(policy)
      Native.plan(policy) if Native.here?
      nil
    rescue ConfigurationError => e
      e.message
    rescue Error
      # That the CLI cannot be run is said at the start.
      nil
    end

    def limit_of(value)
      value && Limit::Size.new(value)
    rescue ArgumentError => e
      wrong(e.message)
    end

    def pressure_of(value)
      return if value.nil? || value == false
      return value if value.is_a?(Numeric) && value.positive? && value <= 100

      wrong("pressure: is a percentage above 0, or false, not #{value.inspect}")
    end

    def seconds(name, value)
      return value if value.is_a?(Numeric) && value.positive?

      wrong("#{name}: is a number of seconds above 0, not #{value.inspect}")
    end
  end
end
