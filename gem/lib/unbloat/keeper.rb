# frozen_string_literal: true

module Unbloat
  # Keeps the limit of this process: a thread that looks at its memory and takes the steps of {Limit}.
  class Keeper
    # Looks for which a worker is given to fall idle, and a refork to bring something.
    PATIENCE = 6

    # @param limit [Limit::Size]
    # @param every [Numeric] seconds between two looks
    # @param pressure [Numeric, nil] percent (PSI) from which on memory is released
    # @param idle [#call] true if the process is working on nothing
    # @param ask [Hash{Symbol => #call}] takes a step (`:refork`, `:replace`) that is not this process's own; called with its PSS
    # @param log [#call]
    def initialize(limit:, every:, idle:, log:, pressure: nil, ask: {})
      @limit = limit
      @every = every
      @pressure = pressure
      @idle = idle
      @ask = ask
      @log = log
    end

    # @return [Thread, nil] nil for a share of a cgroup without a limit
    def start
      @bytes = @limit.bytes
      return unless @bytes || @pressure

      @ladder = Limit.new(@bytes, refork: @ask.key?(:refork), replace: @ask.key?(:replace), patience: @every * PATIENCE) if @bytes
      Thread.new { watch }.tap { |thread| thread.name = "unbloat" }
    end

    private

    def watch
      loop do
        sleep @every
        look
      rescue StandardError => e
        @log.call("unbloat: the limit goes on after #{e.class}: #{e.message}")
      end
    end

    def look
      relieve
      # PSS is never above the resident set, which costs less to read.
      resident = Linux.resident
      return unless @ladder && resident

      pss = resident < @bytes * Limit::BELOW ? resident : Linux.memory&.pss
      step = pss && @ladder.step(pss: pss, idle: pss >= @bytes && @idle.call, now: Process.clock_gettime(Process::CLOCK_MONOTONIC))
      take(step, pss) if step
    end

    def take(step, pss)
      return @ask.fetch(step).call(pss) if @ask.key?(step)

      step == :collect ? collect("#{Limit.words(pss)} of #{@limit}") : release("#{Limit.words(pss)} of #{@limit}")
    end

    def release(why)
      Marks.set(:release)
      returned = Unbloat.trim
      @log.call("unbloat: PID #{Process.pid} takes #{why}. Released #{Limit.words(returned)}")
    end

    def collect(why)
      Marks.set(:collect)
      GC.start
      returned = Unbloat.trim
      @log.call("unbloat: PID #{Process.pid} takes #{why}. A full collection while idle; returned #{Limit.words(returned)}")
    end

    # Before the kernel kills: once for each time that the pressure rises.
    def relieve
      pressure = @pressure && Linux.pressure
      return @relieved = false unless pressure && pressure >= @pressure
      return if @relieved

      why = format("part in memory pressure (%.1f %% of ten seconds)", pressure)
      @relieved = true
      @idle.call ? collect(why) : release(why)
    end
  end
end
