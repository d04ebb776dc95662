# frozen_string_literal: true

module Unbloat
  module Puma
    # Puma's own log, which moved from its events to a log writer in Puma 6.
    class Log
      def initialize(launcher)
        @writer = launcher.respond_to?(:log_writer) ? launcher.log_writer : launcher.events
      end

      # @param line [String]
      def call(line)
        @writer.log("* #{line}")
      rescue StandardError
        # A closed log is nobody's problem here.
        nil
      end
    end
  end
end
