# frozen_string_literal: true

require "objspace"

module Unbloat
  # What a block has left behind, in bytes, as Ruby and the kernel count it.
  class Measurement
    # @return [Object] the block's value
    attr_reader :value
    # @return [Integer] what the block keeps alive: growth of all objects' sizes, after a full collection
    attr_reader :live_bytes
    # @return [Integer] garbage that the block left and that a full collection freed
    attr_reader :freed_bytes
    # @return [Integer] what went back to the kernel of it: the fall of the resident set from the block's end on
    attr_reader :returned_bytes
    # @return [Integer] objects that the block made
    attr_reader :objects

    # Runs a block between two full collections. Other threads' objects count as well.
    # @return [Measurement]
    def self.of(&block)
      raise ArgumentError, "Unbloat.measure needs a block" unless block

      GC.start
      before = ObjectSpace.memsize_of_all
      made = GC.stat(:total_allocated_objects)
      value = Unbloat.suspend(&block)
      new(value, before, GC.stat(:total_allocated_objects) - made)
    end

    def initialize(value, before, objects)
      @value = value
      @objects = objects
      resident = Linux.resident.to_i
      with_garbage = ObjectSpace.memsize_of_all
      GC.start
      after = ObjectSpace.memsize_of_all
      Unbloat.trim
      @live_bytes = after - before
      @freed_bytes = [with_garbage - after, 0].max
      @returned_bytes = [resident - Linux.resident.to_i, 0].max
    end

    # @return [Hash] the figures, without the block's value
    def to_h
      { live_bytes: live_bytes, freed_bytes: freed_bytes, returned_bytes: returned_bytes, objects: objects }
    end
  end
end
