# frozen_string_literal: true

require "json"
require "open3"
require "rbconfig"

module Unbloat
  # The files of this gem that are built for one platform: the CLI and the two libraries.
  module Native
    # The changes that a policy makes to an environment, as `unbloat env --json` prints them.
    Plan = Struct.new(:policy, :set, :unset, :notes, keyword_init: true)

    # The directory of the files that are built for one platform.
    DIRECTORY = File.expand_path("../../native", __dir__)
    # Characters that take a path apart in `LD_PRELOAD` and `RUBYOPT`.
    UNQUOTABLE = /[\s:;$]/.freeze

    class << self
      # @return [String] the path of the CLI
      def cli
        File.join(DIRECTORY, "unbloat")
      end

      # @return [Boolean] true if this gem has files for the machine
      def here?
        reason.nil?
      end

      # @return [String, nil] the reason why nothing can be loaded here
      def reason
        platform = "#{RbConfig::CONFIG['host_cpu']}-#{RbConfig::CONFIG['host_os']}"
        return "libunbloat.so needs Linux with glibc on x86-64, and this is #{platform}" unless platform.match?(/\Ax86_64-linux(-gnu)?\z/)
        return "this gem holds no binaries: it is the one for any platform" unless File.executable?(cli)

        nil
      end

      # The changes that a policy makes to this process's environment. The libraries are those of the user's cache, which outlive an
      # upgrade of the gem under a server that restarts itself; where there can be no cache, those of the gem.
      # @return [Plan]
      # @raise [ConfigurationError] for a policy that does not exist
      # @raise [Error] when the CLI cannot be run
      def plan(policy)
        ask(policy)
      rescue Error => e
        raise if e.is_a?(ConfigurationError) || DIRECTORY.match?(UNQUOTABLE)

        ask(policy, "--libraries", DIRECTORY)
      end

      # @return [String, nil] the runtime that a plan loads
      def runtime_of(plan)
        plan.set["RUBYOPT"].to_s.split.find { |word| word.end_with?("/libunbloat.so") }&.delete_prefix("-r")
      end

      private

      def ask(policy, *options)
        output, errors, status = Open3.capture3(cli, "env", "--json", "--policy", policy.to_s, *options)
        sentence = errors.lines.first.to_s.strip.sub(/\A(unbloat|error): /, "")
        raise ConfigurationError, sentence if status.exitstatus == 2
        raise Error, "#{cli} failed: #{sentence}" unless status.success?

        document = JSON.parse(output)
        Plan.new(**%w[policy set unset notes].map { |key| [key.to_sym, document.fetch(key)] }.to_h)
      rescue SystemCallError, JSON::ParserError, KeyError => e
        raise Error, "#{cli} cannot be run: #{e.message}"
      end
    end
  end
end
