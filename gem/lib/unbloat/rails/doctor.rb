# frozen_string_literal: true

module Unbloat
  # What concerns a Rails application's files.
  module Rails
    # What the files of an application lack, with the lines that mend it. A check is a row.
    class Doctor
      # A check: the file, what it looks for, whether finding it is wrong, what is said, and the line.
      Check = Struct.new(:file, :pattern, :wrong_if_found, :says, :mend, keyword_init: true)

      # All checks.
      CHECKS = [
        Check.new(file: "config/puma.rb", pattern: /^\s*plugin[ (]:unbloat/, wrong_if_found: false,
                  says: "Puma is not started lean", mend: "plugin :unbloat"),
        Check.new(file: "config/puma.rb", pattern: /^\s*(require ["']puma_worker_killer["']|PumaWorkerKiller)/, wrong_if_found: true,
                  says: "puma_worker_killer kills by resident size, which counts shared memory once a worker", mend: "unbloat limit: \"400M\""),
        Check.new(file: "Dockerfile", pattern: /^\s*(ENV|export)\s+.*LD_PRELOAD[= ].*(jemalloc|tcmalloc|mimalloc)/, wrong_if_found: true,
                  says: "another allocator is preloaded behind the policy's", mend: "remove the line; the policy brings its own jemalloc"),
        Check.new(file: "Dockerfile", pattern: /^FROM\s+\S*alpine/, wrong_if_found: true,
                  says: "musl: the libraries need glibc", mend: "FROM ruby:3.4-slim"),
        Check.new(file: "bin/docker-entrypoint", pattern: /LD_PRELOAD=.*jemalloc/, wrong_if_found: true,
                  says: "another allocator is preloaded behind the policy's", mend: "remove the lines; the policy brings its own jemalloc"),
        Check.new(file: "Procfile", pattern: /^\w+:.*\bsidekiq\b/, wrong_if_found: true,
                  says: "Sidekiq is not started lean", mend: "worker: bundle exec unbloat run -- bundle exec sidekiq")
      ].freeze

      # @param root [String] the application's directory
      def initialize(root)
        @root = root
      end

      # @return [Array<String>] two lines for each finding; one where there is none
      def lines
        found = CHECKS.map { |check| finding(check) }.compact
        found.empty? ? ["fine     #{CHECKS.map(&:file).uniq.join(', ')}"] : found.flatten
      end

      private

      def finding(check)
        path = File.join(@root, check.file)
        return unless File.exist?(path)

        lines = File.readlines(path)
        line = lines.index { |text| text.match?(check.pattern) && !(check.file == "Procfile" && text.include?("unbloat run")) }
        return if line.nil? == check.wrong_if_found

        place = line ? "#{check.file}:#{line + 1}" : check.file
        ["advice   #{place}: #{check.says}", "#{' ' * 24}→ #{check.mend}"]
      end
    end
  end
end
