# frozen_string_literal: true

require "helper"

class ReforkTest < Minitest::Test
  MIB = 1 << 20

  def refork
    @refork ||= Unbloat::Refork.new(every: 600)
  end

  # A look at workers of these private MiB.
  def worth_it?(at, private_mib, pss: 500, requests: 1000)
    private_bytes = private_mib.transform_values { |mib| mib * MIB }
    refork.worth_it?(Unbloat::Refork::Look.new(at: at, private_bytes: private_bytes, pss: pss * MIB, mold_requests: requests))
  end

  def test_young_workers_are_left_alone
    refute worth_it?(0, { 11 => 20 })
    refute worth_it?(300, { 11 => 200 })
    assert_match(/younger than 600 s/, refork.reason)
  end

  def test_what_was_unshared_is_what_has_grown_since_the_fork
    refute worth_it?(0, { 11 => 30, 12 => 30 })
    assert worth_it?(600, { 11 => 90, 12 => 70 })
    assert_equal 100 * MIB, refork.unshared_bytes
    assert_equal 50 * MIB, refork.gain_bytes, "half is taken to come back before the first refork"
  end

  def test_a_small_gain_is_not_worth_it
    worth_it?(0, { 11 => 30 })
    refute worth_it?(700, { 11 => 90 })
    assert_match(/below 40.0 MiB/, refork.reason)
  end

  def test_a_cold_mold_has_nothing_to_share
    worth_it?(0, { 11 => 30 })
    refute worth_it?(700, { 11 => 300 }, requests: 49)
    assert_match(/49 requests of 50/, refork.reason)
  end

  def test_what_comes_back_after_a_refork_is_no_gain
    worth_it?(0, { 11 => 30 })
    assert worth_it?(600, { 11 => 200 })
    refork.asked
    refute worth_it?(610, { 21 => 20 })
    # Within one interval it has un-shared 80 again: those would come back the next time as well.
    refute worth_it?(1210, { 21 => 100 })
    assert_equal 0, refork.gain_bytes
    refute worth_it?(1500, { 21 => 130 })
    assert worth_it?(1900, { 21 => 150 })
    assert_equal 50 * MIB, refork.gain_bytes
  end

  def test_what_came_is_held_against_what_was_expected
    worth_it?(0, { 11 => 30 }, pss: 300)
    assert worth_it?(600, { 11 => 200 }, pss: 470)
    refork.asked
    refute worth_it?(601, { 11 => 200 }, pss: 470), "the old workers have not ended yet"
    worth_it?(610, { 21 => 20 }, pss: 290)
    assert_nil refork.outcome, "its first interval has not ended"
    worth_it?(1210, { 21 => 100 }, pss: 370)
    assert_equal [100 * MIB, 85 * MIB], refork.outcome.to_a
    worth_it?(1300, { 21 => 130 }, pss: 400)
    assert_equal 100 * MIB, refork.outcome.brought_bytes
  end

  def test_a_worker_that_was_replaced_starts_the_interval_anew
    worth_it?(0, { 11 => 30, 12 => 30 })
    refute worth_it?(700, { 11 => 200, 13 => 30 })
    assert_match(/younger/, refork.reason)
  end
end
