# frozen_string_literal: true

# A planted cost: a thread that makes the process take so many percent more CPU than it does by itself (PLANTED_CPU_PERCENT, 5).
# Loaded with RUBYOPT=-r. Threads do not survive a fork, so each child starts its own.
module PlantedCpu
  SHARE = ENV.fetch("PLANTED_CPU_PERCENT", "5").to_f / 100

  def self.start
    Thread.new do
      own = 0.0
      loop do
        sleep 0.1
        all = Process.clock_gettime(Process::CLOCK_PROCESS_CPUTIME_ID)
        # What the others took, and how much of it is still missing here.
        missing = (SHARE * (all - own)) - own
        own += burn(missing) if missing.positive?
      end
    end
  end

  def self.burn(seconds)
    began = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID)
    now = began
    now = Process.clock_gettime(Process::CLOCK_THREAD_CPUTIME_ID) while now - began < seconds
    now - began
  end

  # Process._fork is what every fork goes through (Ruby 3.1 and later).
  module Fork
    def _fork = super.tap { |pid| PlantedCpu.start if pid.zero? }
  end
end

Process.singleton_class.prepend(PlantedCpu::Fork)
PlantedCpu.start
