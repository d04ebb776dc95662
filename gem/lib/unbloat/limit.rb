# frozen_string_literal: true

module Unbloat
  # A limit that is kept: one step after the other, each only where the one before was not enough. No I/O.
  #
  # | step | what it does |
  # |---|---|
  # | `:release` | gives freed memory back |
  # | `:collect` | a full collection, while nothing is being worked on |
  # | `:refork` | asks for workers that share again, where that is on |
  # | `:replace` | asks for a graceful replacement |
  class Limit
    # The units of sizes, in bytes.
    UNITS = { "" => 1, "K" => 1 << 10, "M" => 1 << 20, "G" => 1 << 30 }.freeze

    # @param bytes [Integer]
    # @return [String] as it is said to people
    def self.words(bytes)
      format("%.1f MiB", bytes / (1 << 20).to_f)
    end

    # A size that a user has written: bytes, `"400M"`, or a share of the cgroup's limit (`0.25`, `"25%"`).
    class Size
      # @raise [ArgumentError] with a sentence
      def initialize(written)
        @written = written
        @bytes, @share = read(written)
        positive = @share ? (@share.positive? && @share <= 1) : @bytes&.positive?
        raise ArgumentError, "limit: is a size such as \"400M\" or a share of the cgroup such as 0.25, not #{written.inspect}" unless positive
      end

      # @param cgroup [Integer, nil] the limit of the cgroup
      # @return [Integer, nil] nil where there is a share and no limit
      def bytes(cgroup = Linux.cgroup_limit)
        @bytes || (cgroup && (cgroup * @share).to_i)
      end

      # @return [String] as it was written
      def to_s
        @written.to_s
      end

      private

      def read(written)
        case written
        when Integer then [written, nil]
        when Float then [nil, written]
        when /\A(\d+(?:\.\d+)?)%\z/ then [nil, Regexp.last_match(1).to_f / 100]
        when /\A(\d+(?:\.\d+)?)\s*([KMG]?)(?:i?B)?\z/i then [(Regexp.last_match(1).to_f * UNITS.fetch(Regexp.last_match(2).upcase)).to_i, nil]
        end
      end
    end

    # Crossed until this share of the limit is reached.
    BELOW = 0.95

    # @param bytes [Integer]
    # @param refork [Boolean] true if workers can be forked anew
    # @param replace [Boolean] true if somebody can replace this process
    # @param patience [Numeric] seconds that the process is given to fall idle, and a refork to bring something
    def initialize(bytes, refork: false, replace: true, patience: 60)
      @bytes = bytes
      @patience = patience
      @steps = [:release, :collect, (:refork if refork), (:replace if replace)].compact
      rest
    end

    # The next step.
    #
    # @param pss [Integer] what the process takes
    # @param idle [Boolean] true if it is working on nothing
    # @param now [Numeric] seconds of a clock that does not jump
    # @return [Symbol, nil]
    def step(pss:, idle:, now:)
      return rest if pss < @bytes * BELOW
      return if pss < @bytes

      @waiting_since ||= now
      patient = now - @waiting_since < @patience
      @done += 1 if @steps[@done] == :collect && !idle && !patient
      return if waits?(idle, patient)

      take(now)
    end

    private

    def waits?(idle, patient)
      case @steps[@done]
      when :collect then !idle
      when :replace then @steps[@done - 1] == :refork && patient
      end
    end

    # The last step is taken again when it has brought nothing for long.
    def take(now)
      step = @steps[@done]
      return (rest if now - @waiting_since >= @patience) unless step

      @done += 1
      @waiting_since = now
      step
    end

    def rest
      @done = 0
      @waiting_since = nil
    end
  end
end
