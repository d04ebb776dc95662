# frozen_string_literal: true

module Unbloat
  # Decides when a refork pays, from what workers have un-shared since they were forked. No I/O.
  #
  # A refork makes the forked workers share everything with the mold again. What they un-share within the next interval comes back and is
  # no gain: it is measured after each refork, and taken to be half before the first.
  class Refork
    # A look at the forked workers: private bytes by process ID; the PSS of all workers; the requests that the mold has served.
    Look = Struct.new(:at, :private_bytes, :pss, :mold_requests, keyword_init: true)
    # What a refork has brought by the end of its first interval, beside what was expected of it: bytes of all workers' PSS.
    Outcome = Struct.new(:brought_bytes, :expected_bytes, keyword_init: true)

    # Bytes of gain below which a refork is not worth its restarts.
    MIN_GAIN = 32 << 20
    # The same as a share of all workers' PSS.
    MIN_SHARE = 0.08
    # Requests that the mold has to have served: a cold one has nothing to share.
    MOLD_REQUESTS = 50
    # The share of what is un-shared that is taken to come back, before any refork has been measured.
    UNKNOWN_RETURN = 0.5

    # @return [Integer] bytes un-shared since the forks, at the last look
    attr_reader :unshared_bytes
    # @return [Integer] bytes that a refork would have brought, at the last look
    attr_reader :gain_bytes
    # @return [String] why the last look asked for nothing
    attr_reader :reason
    # @return [Outcome, nil] that of the last refork whose first interval has ended
    attr_reader :outcome

    def initialize(every:, min_gain: MIN_GAIN, mold_requests: MOLD_REQUESTS)
      @every = every
      @min_gain = min_gain
      @mold_requests = mold_requests
      @base = {}
      @unshared_bytes = @gain_bytes = 0
      @reason = "no look so far"
    end

    # @param look [Look]
    # @return [Boolean] true if a refork is worth it now
    def worth_it?(look)
      follow(look)
      @unshared_bytes = look.private_bytes.sum { |pid, bytes| bytes - @base.fetch(pid) }
      rested = look.at - @since >= @every
      judge(look) if rested && @expected
      @pss = look.pss
      @gain_bytes = [@unshared_bytes - (@returned || (@unshared_bytes * UNKNOWN_RETURN)), 0].max.to_i
      @reason = objection(look, rested)
      @reason.nil?
    end

    # A refork was asked for: the next workers are measured anew.
    def asked
      @expected = [@pss.to_i, @gain_bytes]
      # The interval begins anew, also while the old workers are still there.
      @returned = @since = nil
    end

    private

    # Holds what came of the last refork against what was expected; and learns how much of it has gone again.
    def judge(look)
      before, gain = @expected
      @expected = nil
      @returned = @unshared_bytes
      @outcome = Outcome.new(brought_bytes: before - look.pss, expected_bytes: gain)
    end

    # A worker's base is the least that was private to it: what it un-shares at once is the price of being a worker.
    def follow(look)
      @since = look.at if @since.nil? || (look.private_bytes.keys - @base.keys).any?
      @base = look.private_bytes.to_h { |pid, bytes| [pid, [@base.fetch(pid, bytes), bytes].min] }
    end

    def objection(look, rested)
      return "the workers are younger than #{@every} s" unless rested
      return "the mold has served #{look.mold_requests} requests of #{@mold_requests}" if look.mold_requests < @mold_requests

      needed = [@min_gain, (look.pss * MIN_SHARE).to_i].max
      "the gain is below #{Limit.words(needed)}" if @gain_bytes < needed
    end
  end
end
