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
    exec chroot "$layer/root" env -i HOME=/root LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin sh -euc "$5"
  SH

  # @return [String] what the script printed
  def in_scratch(suite, script, app: "")
    root, status = Open3.capture2(File.join(ROOT, "scripts/chroot"), "--path", suite)
    assert status.success?, "no root for #{suite}"
    Dir.mktmpdir("unbloat-scratch-") do |layer|
      output, status = Open3.capture2e("timeout", "300", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "sh", "-euc", ENTER, "sh",
                                       root.chomp, layer, PACKAGES, app, script)
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
    package("*.cdx.json")[/\d+\.\d+\.\d+/]
  end
end
