# frozen_string_literal: true

require "open3"
require "tempfile"

module Unbloat
  module Rails
    # An edit of one file that can be undone. No I/O but for the difference that is shown.
    class Edit
      # The words before a command, for a shell.
      RUN = "bundle exec unbloat run -- "
      # The same for `CMD [...]`.
      RUN_WORDS = RUN.split.map { |word| "\"#{word}\"" }.join(", ")
      # The line for config/puma.rb.
      PLUGIN = "plugin :unbloat"
      # The beginning of a `CMD` that starts Rails' server; a proxy before it belongs to it.
      SERVER_COMMAND = %r{^CMD \[(?=.*"(?:\./)?bin/rails", "server")(?:"\./bin/thrust", )?}.freeze

      # Files, how they are edited, and how that is undone.
      ALL = {
        "config/puma.rb" => [->(text) { text.match?(/^\s*plugin[ (]:unbloat/) ? text : "#{text.chomp}\n\n#{PLUGIN}\n" },
                             ->(text) { text.sub(/\n?^#{PLUGIN}\n/, "") }],
        # The server's command, in the form that starts no shell. A proxy before it (Thruster) stays in front.
        "Dockerfile" => [->(text) { text.include?(RUN_WORDS) ? text : text.gsub(SERVER_COMMAND) { "#{Regexp.last_match(0)}#{RUN_WORDS}, " } },
                         ->(text) { text.gsub("#{RUN_WORDS}, ", "") }],
        "Procfile" => [->(text) { text.gsub(%r{^(\w+: )(?=(bundle exec )?(bin/)?(puma|rails s|sidekiq))}) { "#{Regexp.last_match(1)}#{RUN}" } },
                       ->(text) { text.gsub(RUN, "") }]
      }.freeze

      # @return [String] the path in the application
      attr_reader :file
      # @return [String] the text that the file gets
      attr_reader :after

      # The edits that change something in an application.
      #
      # @param root [String]
      # @param undo [Boolean]
      # @return [Array<Edit>]
      def self.in(root, undo: false)
        files = ALL.keys.select { |file| File.exist?(File.join(root, file)) }
        files.map { |file| new(file, File.read(File.join(root, file)), undo: undo) }.select(&:any?)
      end

      def initialize(file, before, undo: false)
        @file = file
        @before = before
        @after = ALL.fetch(file)[undo ? 1 : 0].call(before)
      end

      # @return [Boolean] true if it changes something
      def any?
        @before != @after
      end

      # @return [String] the difference, as diff -u has it
      def difference
        Tempfile.create("before") do |before|
          before.write(@before)
          before.flush
          Open3.capture2("diff", "-u", "--label", "a/#{file}", "--label", "b/#{file}", before.path, "-", stdin_data: @after).first
        end
      end
    end
  end
end
