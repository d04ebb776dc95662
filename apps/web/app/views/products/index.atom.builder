# frozen_string_literal: true

atom_feed do |feed|
  feed.title "Products"
  feed.updated @products.map(&:updated_at).max
  @products.each do |product|
    feed.entry(product) do |entry|
      entry.title product.name
      entry.content simple_format(product.description), type: "html"
    end
  end
end
