# frozen_string_literal: true

require_relative "helper"

# Each package, installed as a user would.
class PackagesTest < Minitest::Test
  include Scratch

  # A Ruby started lean says what serves its malloc.
  LEAN = "unbloat run -- ruby -e 'puts Unbloat.status[:allocator]'"

  def test_checksums_are_right
    listed = File.readlines(File.join(PACKAGES, "SHA256SUMS")).to_h { |line| line.split.reverse }
    assert_equal (Dir.children(PACKAGES) - ["SHA256SUMS"]).sort, listed.keys.sort
    listed.each { |name, sum| assert_equal Digest::SHA256.file(File.join(PACKAGES, name)).hexdigest, sum, name }
  end

  SUITES.each do |suite|
    define_method("test_the_tarball_on_#{suite}") do
      output = in_scratch(suite, <<~SH)
        cd /tmp && tar xf /packages/#{package('*.tar.gz')} && ./unbloat-*/install.sh && #{LEAN}
        unbloat version --json
        ./unbloat-*/install.sh --uninstall && ! test -e /usr/local/bin/unbloat
      SH
      assert_match(/^installed unbloat #{version} in/, output)
      assert_match(/^jemalloc 5/, output)
      assert_includes output, "\"version\": \"#{version}\""
    end

    define_method("test_the_deb_on_#{suite}") do
      output = in_scratch(suite, <<~SH)
        dpkg -i /packages/#{package('*.deb')} && #{LEAN}
        zcat /usr/share/man/man1/unbloat-inspect.1.gz | head -n 3
        UNBLOAT_LIBRARY_DIR=/usr/lib/unbloat unbloat doctor || test $? = 3
        bash -n /usr/share/bash-completion/completions/unbloat
        cat /usr/share/doc/unbloat/examples/unbloat.conf
        dpkg -r unbloat && ! test -e /usr/bin/unbloat
      SH
      assert_match(/^jemalloc 5/, output)
      assert_match(/^\.TH unbloat-inspect 1/, output)
      assert_match(%r{^fine +cache +/usr/lib/unbloat$}, output)
      assert_match(%r{^Environment=.*LD_PRELOAD=/usr/lib/unbloat/}, output)
    end

    define_method("test_the_gem_on_#{suite}") do
      output = in_scratch(suite, <<~SH)
        gem install --local --no-document /packages/#{package('*x86_64-linux.gem')} >/dev/null
        unbloat version
        cd /app && printf 'plugin :unbloat\\nbind "tcp://127.0.0.1:0"\\nworkers 1\\n' > puma.rb
        echo 'run lambda { |env| [200, {}, [Unbloat.status.inspect]] }' > config.ru
        serve puma -C puma.rb
        finish
      SH
      assert_includes output, "unbloat #{version}\n"
      assert_match(/^mapped [1-9]/, output)
    end
  end

  def test_the_image_is_what_its_digests_say_and_runs
    Dir.mktmpdir do |directory|
      assert system("tar", "xf", File.join(PACKAGES, package("*-oci.tar")), "-C", directory)
      read = ->(descriptor) { File.binread(File.join(directory, "blobs", descriptor["digest"].tr(":", "/"))) }
      Dir.glob(File.join(directory, "blobs/sha256/*")).each { |blob| assert_equal File.basename(blob), Digest::SHA256.file(blob).hexdigest }
      manifest = JSON.parse(read.call(JSON.parse(File.read(File.join(directory, "index.json")))["manifests"].first))
      entry = JSON.parse(read.call(manifest["config"]))["config"]["Entrypoint"]
      root = File.join(directory, "root")
      Dir.mkdir(root)
      layer = manifest["layers"].first
      assert system("tar", "xzf", File.join(directory, "blobs", layer["digest"].tr(":", "/")), "-C", root)
      output, = Open3.capture2e("chroot", root, *entry, "version")
      assert_equal "unbloat #{version}\n", output
    end
  end

  # Readers of images that others have written.
  def test_other_tools_read_the_image
    image = File.join(PACKAGES, package("*-oci.tar"))
    Dir.mktmpdir do |directory|
      output, status = Open3.capture2e("skopeo", "--insecure-policy", "--tmpdir", directory, "copy", "oci-archive:#{image}", "oci:#{directory}/copy:latest")
      assert status.success?, output
      output, status = Open3.capture2e("skopeo", "--tmpdir", directory, "inspect", "oci-archive:#{image}")
      assert status.success?, output
      assert_equal version, JSON.parse(output).dig("Labels", "org.opencontainers.image.version")
      output, status = Open3.capture2e("umoci", "unpack", "--image", "#{directory}/copy:latest", "#{directory}/bundle")
      assert status.success?, output
      process = JSON.parse(File.read("#{directory}/bundle/config.json"))["process"]
      output, = Open3.capture2e("chroot", "#{directory}/bundle/rootfs", *process["args"], "version")
      assert_equal "unbloat #{version}\n", output
      assert_includes process["env"], "UNBLOAT_LIBRARY_DIR=/usr/local/lib/unbloat"
      # What the image says of its libraries is accepted: the checks of `unbloat run` are passed.
      output, = Open3.capture2e({ "UNBLOAT_LIBRARY_DIR" => "/usr/local/lib/unbloat" }, "chroot", "#{directory}/bundle/rootfs", "/usr/local/bin/unbloat", "doctor")
      assert_match(%r{^fine +cache +/usr/local/lib/unbloat$}, output)
    end
  end

  def test_the_bill_of_materials_names_what_is_inside
    document = JSON.parse(File.read(File.join(PACKAGES, "unbloat-#{version}.cdx.json")))
    names = document["components"].map { |component| component["name"] }
    assert_equal [], %w[clap tikv-jemalloc-sys unbloat-runtime rusqlite] - names
    assert_equal [], %w[insta proptest tungstenite-test] & names
    known = ["pkg:cargo/unbloat@#{version}", *document["components"].map { |component| component["bom-ref"] }]
    assert_equal [], document["dependencies"].flat_map { |dependency| dependency["dependsOn"] } - known
    of_image = JSON.parse(File.read(File.join(PACKAGES, "unbloat-#{version}-oci.cdx.json")))["components"].map { |component| component["name"] }
    assert_equal %w[libc6 libgcc-s1], (of_image - names).sort
  end
end
