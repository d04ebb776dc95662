# frozen_string_literal: true

require "helper"

# What the kernel says of control groups, laid out in a directory.
class LinuxTest < Minitest::Test
  # The group of a process whose /proc/PID/cgroup has this text.
  def group(text, files)
    Dir.mktmpdir do |root|
      files.each do |file, content|
        FileUtils.mkdir_p(File.join(root, File.dirname(file)))
        File.write(File.join(root, file), content)
      end
      yield Unbloat::Linux::Cgroup.new(text, root), root
    end
  end

  def test_the_least_limit_above_counts
    group("0::/apps/shop\n", "apps/shop/memory.max" => "max\n", "apps/memory.max" => "4000\n", "memory.max" => "9000\n") do |cgroup|
      assert_equal 4000, cgroup.limit
    end
  end

  def test_in_a_container_the_root_of_the_mount_is_its_own
    group("0::/../../docker/7dfb\n", "memory.max" => "5000\n", "memory.pressure" => "") do |cgroup, root|
      assert_equal 5000, cgroup.limit
      assert_equal File.join(root, "memory.pressure"), cgroup.pressure_file
    end
  end

  def test_the_first_version_beside_the_second
    files = { "memory/old/memory.limit_in_bytes" => "3000\n", "memory/memory.limit_in_bytes" => "9223372036854771712\n",
              "unified/memory.pressure" => "", "unified/shop/memory.pressure" => "" }
    group("5:devices:/\n4:cpu,memory:/old\n0::/shop\n", files) do |cgroup, root|
      assert_equal 3000, cgroup.limit
      assert_equal File.join(root, "unified/shop/memory.pressure"), cgroup.pressure_file
    end
    group("4:memory:/\n", files) { |cgroup| assert_nil cgroup.limit }
  end

  def test_without_any_there_is_none
    group("0::/\n", {}) { |cgroup| assert_equal [nil, nil], [cgroup.limit, cgroup.pressure_file] }
    group("", "memory.max" => "1\n") { |cgroup| assert_nil cgroup.limit }
  end

  def test_figures_of_this_process
    memory = Unbloat::Linux.memory
    assert_operator memory.pss, :<=, memory.rss
    assert_in_delta memory.rss, Unbloat::Linux.resident, memory.rss
    assert_nil Unbloat::Linux.memory(0)
  end
end
