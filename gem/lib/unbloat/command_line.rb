# frozen_string_literal: true

require "rbconfig"

module Unbloat
  # The command that starts this program again.
  module CommandLine
    # Options of Ruby that change the directory: a second time they would not mean the same (ruby(1)).
    CHANGES_DIRECTORY = /\A-[^-IrEeFTxW0K]*[CX]/.freeze

    class << self
      # @return [Array<String>, nil] the words, or nil where a second start would not mean the same
      def of_this_process
        words = kernel_words
        return replayable(words) if words
        return unless File.exist?($PROGRAM_NAME)

        [RbConfig.ruby, $PROGRAM_NAME, *ARGV]
      end

      private

      # The command line as the kernel has it. A process that has set its title (`bundle exec` does) has written over it.
      def kernel_words
        words = File.read("/proc/self/cmdline").split("\0", -1)[0...-1]
        return unless words && words.size > 1 && File.basename(words.first).start_with?("ruby")

        words if words.include?($PROGRAM_NAME) || words.include?("-e") || words.any? { |word| File.basename(word) == File.basename($PROGRAM_NAME) }
      rescue SystemCallError
        nil
      end

      def replayable(words)
        options = words.drop(1).take_while { |word| word.start_with?("-") && word != "--" }
        return if $PROGRAM_NAME == "-" || options.any? { |word| word.match?(CHANGES_DIRECTORY) }

        [RbConfig.ruby, *words.drop(1)]
      end
    end
  end
end
