# frozen_string_literal: true

module Unbloat
  # Makes a process lean that was not started by `unbloat run`.
  #
  # What a policy needs before Ruby starts (an allocator, a limit of arenas without a runtime) needs a second start of the program: one
  # exec, with the same arguments, environment and descriptors. {MARK} holds the process ID over that exec, so it is never made twice. All
  # that comes later (Puma's hot restarts, Rubies further down) is the runtime's own affair, as below `unbloat run`.
  class Boot
    # The policy where none is named.
    DEFAULT_POLICY = "lean"
    # The process ID while a program starts again.
    MARK = "UNBLOAT_BOOTED"
    # The mark by which the runtime gives a process its name back after such a start.
    RESTARTED = "UNBLOAT_RESTARTED"

    # @param policy [String]
    # @param restart [#call] answers the command and the redirections for exec, and `nil` where there is none
    # @param log [#call] hears what there is to say, at most one sentence a start
    def initialize(policy, restart: -> { [CommandLine.of_this_process] }, log: ->(line) { warn(line) })
      @policy = policy
      @restart = restart
      @log = log
    end

    # @return [Boolean] true if the policy is live here. Does not return where the program starts again.
    # @raise [ConfigurationError] for a policy that does not exist
    def call
      second = ENV.delete(MARK) == Process.pid.to_s
      return no(Native.reason) unless Native.here?
      return no("switched off by UNBLOAT=#{ENV['UNBLOAT']}") if %w[0 off false no].include?(ENV["UNBLOAT"])

      @plan = Native.plan(@policy)
      return outer if Unbloat.runtime? && !second && ENV["UNBLOAT_POLICY"] != @plan.policy

      settle(second)
    rescue ConfigurationError
      raise
    rescue StandardError => e
      complain("not lean: #{e.message}")
    end

    private

    def settle(second)
      return live if live?

      start_again if needs_start? && !second
      load_runtime
      live? ? live : complain(why_not(second))
    end

    # What an outer `unbloat run` decided holds.
    def outer
      complain("started below `unbloat run --policy #{ENV['UNBLOAT_POLICY']}`, which holds; #{@plan.policy} is not used")
    end

    def preload
      @plan.set["UNBLOAT_PRELOAD"]
    end

    def wants_runtime?
      @plan.set.key?("UNBLOAT_TRIM")
    end

    def live?
      preloaded? && (Unbloat.runtime? || !wants_runtime?) && !needs_arenas?
    end

    def preloaded?
      preload.nil? || Linux.mapped?(preload)
    end

    # Without a runtime only glibc itself reads the limit, as it starts.
    def needs_arenas?
      limit = @plan.set["MALLOC_ARENA_MAX"]
      !wants_runtime? && !limit.nil? && ENV["MALLOC_ARENA_MAX"] != limit
    end

    def needs_start?
      !preloaded? || needs_arenas?
    end

    def live
      Answers.reason = nil
      true
    end

    def no(reason)
      Answers.reason = reason
      false
    end

    def complain(reason)
      no(reason)
      @log.call("unbloat: #{reason}")
      Unbloat.runtime?
    end

    def why_not(second)
      return "the policy #{@plan.policy} is not live, though the program was started again with it" if second

      "the policy #{@plan.policy} is not live: the program cannot be started again by itself. Start it with: unbloat run -- COMMAND"
    end

    # Loads the runtime into this process as it is.
    def load_runtime
      @plan.unset.each { |name| ENV.delete(name) }
      ENV.update(@plan.set.reject { |name, _| name == "LD_PRELOAD" })
      library = @plan.set["UNBLOAT_TRIM"] && Native.runtime_of(@plan)
      require library if library && !Unbloat.runtime?
    end

    def start_again
      command, descriptors = @restart.call
      return unless command

      @plan.notes.each { |note| @log.call("unbloat: #{note}") }
      exec(environment, *command, { close_others: false }.merge(descriptors.to_h))
    end

    def environment
      variables = @plan.unset.map { |name| [name, nil] }.to_h.merge(@plan.set)
      variables[MARK] = Process.pid.to_s
      variables[RESTARTED] = "#{Process.pid}:#{Linux.name}" if preload
      variables.merge(bundlers_own(variables["RUBYOPT"]))
    end

    # Bundler hands programs that leave the bundle the RUBYOPT from before it, Puma's hot restart among them.
    def bundlers_own(options)
      before = ENV["BUNDLER_ORIG_RUBYOPT"]
      return {} unless before && options

      ours = options.split.find { |word| word.end_with?("/libunbloat.so") }
      rest = before == "BUNDLER_ENVIRONMENT_PRESERVER_INTENTIONALLY_NIL" ? nil : before
      { "BUNDLER_ORIG_RUBYOPT" => [ours, rest].compact.join(" ") }
    end
  end
end
