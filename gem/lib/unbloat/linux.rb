# frozen_string_literal: true

require "etc"

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

      # @return [Integer, nil] the limit of memory of this process's cgroup, or of the nearest one above that has one
      def cgroup_limit
        cgroups("memory.max").map { |file| Integer(read(file), exception: false) }.compact.min
      end

      # @return [Float, nil] percent of the last ten seconds in which some task of the cgroup waited for memory (PSI)
      def pressure
        file = cgroups("memory.pressure").first || ("/proc/pressure/memory" if File.exist?("/proc/pressure/memory"))
        file && read(file)[/^some avg10=([\d.]+)/, 1]&.to_f
      rescue SystemCallError
        nil
      end

      private

      def read(file)
        File.read(file).strip
      rescue SystemCallError
        ""
      end

      # The files of a name in the cgroup (version 2) and those above it, nearest first.
      def cgroups(name)
        path = read("/proc/self/cgroup")[/^0::(.*)$/, 1]
        return [] unless path

        parts = path.split("/").reject { |part| part.empty? || part == ".." }
        parts.size.downto(0).map { |count| File.join("/sys/fs/cgroup", *parts.first(count), name) }.select { |file| File.exist?(file) }
      end
    end
  end
end
