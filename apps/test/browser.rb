# frozen_string_literal: true

require "net/http"

# Keeps cookies, and fills in the token of a form like a browser.
class Browser
  def initialize(url)
    @url = url
    @cookies = {}
  end

  def get(path) = request(Net::HTTP::Get.new(path))

  # Sends the form of a page; a field that is an IO is sent as a file.
  def submit(page, path, fields)
    token = get(page).body.scan(/name="authenticity_token" value="([^"]+)"/).flatten.last
    files, texts = fields.merge("authenticity_token" => token).partition { |_, value| value.respond_to?(:read) }
    files = files.map { |name, io| [name, io, { filename: name, content_type: "application/octet-stream" }] }
    post = Net::HTTP::Post.new(path)
    files.empty? ? post.set_form_data(texts) : post.set_form(texts + files, "multipart/form-data")
    request(post)
  end

  private

  def request(request)
    request["Cookie"] = @cookies.map { |pair| pair.join("=") }.join("; ")
    uri = URI(@url)
    response = Net::HTTP.start(uri.host, uri.port) { |http| http.request(request) }
    response.get_fields("Set-Cookie")&.each { |cookie| @cookies.store(*cookie[/[^;]+/].split("=", 2)) }
    response
  end
end
