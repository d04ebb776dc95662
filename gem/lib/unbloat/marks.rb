# frozen_string_literal: true

module Unbloat
  # Marks in recordings: `unbloat record` finds the steps of a process on the status page that its runtime keeps.
  module Marks
    # @param step [Symbol] `:release`, `:collect`, `:refork` or `:replace`
    # @return [Boolean] true if it was noted; without a runtime of this version nothing is
    def self.set(step)
      method = :"mark_#{step}"
      return false unless Unbloat.respond_to?(method, true)

      Unbloat.send(method)
      true
    end
  end
end
