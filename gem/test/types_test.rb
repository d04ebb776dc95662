# frozen_string_literal: true

require "helper"
require "unbloat/sidekiq"

# The type signatures say what is there.
class TypesTest < Minitest::Test
  SIGNATURES = File.expand_path("../sig", __dir__)

  def test_they_are_valid
    rbs = %w[rbs rbs3.3 rbs3.1].find { |name| system("command -v #{name} >/dev/null") }
    skip "there is no rbs here (Ruby 3.0 or later brings it)" unless rbs
    output, status = Open3.capture2e(rbs, "-I", SIGNATURES, "validate")
    assert status.success?, output
  end

  def test_every_method_that_is_named_is_there
    text = File.read(File.join(SIGNATURES, "unbloat.rbs"))
    named = text[/^module Unbloat\n(.*?)^  class Measurement/m, 1].scan(/^  def self\.(\w+[?!]?):/).flatten
    missing = named.reject { |name| Unbloat.respond_to?(name) }
    assert_empty missing
    assert_operator named.size, :>, 5
    readers = text[/class Measurement(.*?)^  end/m, 1].scan(/attr_reader (\w+)/).flatten
    missing = readers.reject { |name| Unbloat::Measurement.method_defined?(name) }
    assert_empty missing
    settings = text[/self\.attach:(.*?)-> void/m, 1].scan(/\?(\w+):/).flatten.map(&:to_sym)
    assert_equal Unbloat::Sidekiq::Options::NAMES.sort, settings.sort
  end
end
