# frozen_string_literal: true

require "digest"
require "fileutils"
require "json"
require "minitest/autorun"
require "open3"
require "tmpdir"

# Another Debian to spoil: what is written in it is gone afterwards.
module Scratch
  ROOT = File.expand_path("../..", __dir__)
  PACKAGES = File.join(ROOT, "target/packages")
  SUITES = ENV.fetch("UNBLOAT_SUITES", "trixie").split

  # Shell functions for scripts: a Puma in the background, with its log in `log`.
  SHELL = <<~'SH'
    # Runs a command until its first worker is up.
    serve() {
        (timeout 100 "$@" >log 2>&1; true) &
        for i in $(seq 600); do grep -q booted log && return; sleep 0.1; done
        cat log
        false
    }
    # Puma 4 writes "pid", later ones "PID"; the number in front of the first line is the master's.
    worker() { sed -n 's/.*([Pp][Ii][Dd]: \([0-9]*\)) booted.*/\1/p' log | tail -n 1; }
    master() { sed -n 's/^\[\([0-9]*\)\].*/\1/p' log | head -n 1; }
    # Says how often the worker has the policy's allocator mapped, and ends the server.
    finish() {
        cat log
        echo mapped $(grep -c libunbloat-jemalloc /proc/$(worker)/maps)
        kill $(master)
        wait
    }
  SH

  # Mounts a writable layer over the suite's root, binds the packages, and runs a shell script in it.
  ENTER = <<~SH
    root=$1 layer=$2 packages=$3
    mount -t tmpfs tmpfs "$layer"
    mkdir "$layer/up" "$layer/work" "$layer/root"
    mount -t overlay overlay -o "lowerdir=$root,upperdir=$layer/up,workdir=$layer/work" "$layer/root"
    mkdir -p "$layer/root/packages" "$layer/root/app"
    mount --bind "$packages" "$layer/root/packages"
    for shared in /sys /dev; do mount --rbind "$shared" "$layer/root$shared"; done
    mount -t proc proc "$layer/root/proc"
    [ -z "$4" ] || mount --bind "$4" "$layer/root/app"
    exec chroot "$layer/root" env -i HOME=/root LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -euc "$5$6"
  SH

  # @return [String] what the script printed
  def in_scratch(suite, script, app: "")
    root, status = Open3.capture2(File.join(ROOT, "scripts/chroot"), "--path", suite)
    assert status.success?, "no root for #{suite}"
    Dir.mktmpdir("unbloat-scratch-") do |layer|
      output, status = Open3.capture2e("timeout", "300", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "sh", "-euc", ENTER, "sh",
                                       root.chomp, layer, PACKAGES, app, SHELL, script)
      assert status.success?, "#{suite}: #{script}\n#{output}"
      output
    end
  end

  def package(pattern)
    found = Dir.glob(File.join(PACKAGES, pattern))
    assert_equal 1, found.size, "#{pattern} in #{PACKAGES}; run deploy/packages"
    File.basename(found.first)
  end

  def version
    package("*_amd64.deb")[/\d+\.\d+\.\d+/]
  end
end
