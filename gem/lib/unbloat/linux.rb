# frozen_string_literal: true

require "etc"
require "unbloat/linux/cgroup"

module Unbloat
  # Figures of the kernel about processes and their cgroup. What cannot be read is nil.
  module Linux
    # Bytes of a process: resident, proportional, and private to it (un-shared or its own).
    Memory = Struct.new(:rss, :pss, :private_bytes, keyword_init: true)

    class << self
      # @param path [String] a library
      # @return [Boolean] true if this process has it mapped
      def mapped?(path)
        real = File.realpath(path)
        File.foreach("/proc/self/maps").any? { |line| line.chomp.end_with?(" #{real}") }
      rescue SystemCallError
        false
      end

      # @return [String] the name of this process (/proc/PID/comm)
      def name
        File.read("/proc/self/comm").chomp
      rescue SystemCallError
        "ruby"
      end

      # @return [Memory, nil] the memory of a process (/proc/PID/smaps_rollup, Linux 4.14)
      def memory(pid = "self")
        rollup = File.read("/proc/#{pid}/smaps_rollup")
        kib = rollup.scan(/^(\w+):\s+(\d+) kB/).to_h.transform_values { |value| value.to_i * 1024 }
        return unless kib["Pss"]

        Memory.new(rss: kib["Rss"], pss: kib["Pss"], private_bytes: kib["Private_Clean"] + kib["Private_Dirty"])
      rescue SystemCallError
        nil
      end

      # @return [Integer, nil] resident bytes of this process
      def resident
        File.read("/proc/self/statm").split[1].to_i * Etc.sysconf(Etc::SC_PAGESIZE)
      rescue SystemCallError
        nil
      end

      # @return [Integer, nil] the limit of memory of this process's cgroup: the least of its own and those above
      def cgroup_limit
        cgroup.limit
      end

      # @return [Float, nil] percent of the last ten seconds in which some task of the cgroup waited for memory (PSI)
      def pressure
        text(pressure_file)[/^some avg10=([\d.]+)/, 1]&.to_f
      end

      # @return [String] the file in which {pressure} is read: that of the cgroup, or of the machine where there is none
      def pressure_file
        cgroup.pressure_file || "/proc/pressure/memory"
      end

      # @param file [String]
      # @return [String] its text, empty where it cannot be read
      def text(file)
        File.read(file).strip
      rescue SystemCallError
        ""
      end

      private

      def cgroup
        Cgroup.new(text("/proc/self/cgroup"))
      end
    end
  end
end
