# frozen_string_literal: true

module Unbloat
  module Linux
    # The control groups of a process, its own and those above, in either version (`cgroup-v2.rst`, `cgroup-v1/memory.rst`).
    #
    # A container sees its own group as the root of the mount, while the path may be the machine's: directories that are not there are
    # left out.
    class Cgroup
      # Numbers from here on are version 1's way of having no limit.
      NO_LIMIT = 1 << 60

      # @param text [String] `/proc/PID/cgroup`
      # @param mounted [String] where the groups are mounted
      def initialize(text, mounted = "/sys/fs/cgroup")
        @paths = text.scan(/^\d+:([^:]*):(.*)$/).to_h
        @mounted = mounted
      end

      # @return [Integer, nil] bytes that the group, or one above it, may take at most
      def limit
        files = below(@mounted, "", "memory.max") + below(File.join(@mounted, "memory"), "memory", "memory.limit_in_bytes")
        files.map { |file| Integer(Linux.text(file), exception: false) }.compact.select { |bytes| bytes < NO_LIMIT }.min
      end

      # @return [String, nil] the file with the group's pressure (PSI). Beside groups of version 1, those of version 2 are mounted at `unified`.
      def pressure_file
        [@mounted, File.join(@mounted, "unified")].flat_map { |mount| below(mount, "", "memory.pressure") }.first
      end

      private

      # The files of a name in the group and those above it, nearest first.
      def below(mount, controller, name)
        path = @paths.find { |controllers, _| controllers == controller || controllers.split(",").include?(controller) }&.last or return []

        parts = path.split("/").reject { |part| part.empty? || part == ".." }
        parts.size.downto(0).map { |count| File.join(mount, *parts.first(count), name) }.select { |file| File.exist?(file) }
      end
    end
  end
end
