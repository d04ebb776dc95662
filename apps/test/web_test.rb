# frozen_string_literal: true

require_relative "helper"
require_relative "browser"
require "csv"
require "json"
require "stringio"

class WebTest < AppTest
  PAGES = { "/" => "<article", "/products?page=3" => "<article", "/products/7" => "Reviews", "/search?q=an" => "<mark>",
            "/products.atom" => "<entry>", "/session/new" => "password" }.freeze

  def test_a_visit_to_every_page
    with_app("web", "--workers", "1") do |app|
      browser = Browser.new(app[:url])
      PAGES.each { |path, text| assert_includes page(browser, path), text, path }
      assert_equal 40, JSON.parse(page(browser, "/products.json")).size
      assert_equal 2001, CSV.parse(page(browser, "/products.csv")).size
      assert_equal "302", browser.get("/orders").code, "orders are for those who have logged in"
      log_in(browser)
      assert_includes page(browser, "/orders"), "Total"
      review(browser)
      upload(browser)
    end
  end

  private

  def page(browser, path)
    response = browser.get(path)
    assert_equal "200", response.code, path
    response.body.force_encoding("UTF-8")
  end

  def log_in(browser)
    browser.submit("/session/new", "/session", { "email" => "user5@example.com", "password" => "wrong" })
    assert_includes page(browser, "/session/new"), "Wrong email or password"
    browser.submit("/session/new", "/session", { "email" => "user5@example.com", "password" => "password" })
    assert_includes page(browser, "/"), "Welcome"
  end

  def review(browser)
    browser.submit("/products/7", "/products/7/reviews", { "review[rating]" => "4", "review[body]" => "As described" })
    assert_includes page(browser, "/products/7"), "As described"
  end

  def upload(browser)
    content = Random.new(1).bytes(300_000)
    location = browser.submit("/uploads/new", "/uploads", { "file" => StringIO.new(content) })["Location"]
    assert_equal content, browser.get(URI(location).path).body
  end
end
