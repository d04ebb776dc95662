# frozen_string_literal: true

# The same shop each time. Everybody's password is "password".
random = Random.new(1)
words = Array.new(1500) { Array.new(random.rand(2..9)) { ("a".."z").to_a.sample(random: random) }.join }
text = ->(length) { Array.new(length) { words[(random.rand**2 * words.size).to_i] }.join(" ").capitalize << "." }
paragraphs = ->(count, length) { Array.new(random.rand(count)) { text.call(random.rand(length)) }.join("\n\n") }
now = Time.utc(2024, 1, 1)
at = -> { (now - random.rand(0..86_400 * 365)).then { |time| { created_at: time, updated_at: time } } }
categories = words.sample(24, random: random)
digest = BCrypt::Password.create("password", cost: BCrypt::Engine::MIN_COST)

insert = lambda do |model, count, &row|
  (1..count).each_slice(500) { |ids| model.insert_all!(ids.map { |id| { id: id, **row.call(id) } }) }
end

ActiveRecord::Base.transaction do
  insert.call(User, 200) do |id|
    { name: text.call(2).delete("."), email: "user#{id}@example.com", password_digest: digest, **at.call }
  end
  insert.call(Product, 2000) do |id|
    { name: text.call(random.rand(2..5)).delete("."), sku: format("SKU-%06d", id), category: categories.sample(random: random),
      price_cents: random.rand(99..99_999), description: paragraphs.call(1..6, 20..80), **at.call }
  end
  insert.call(Review, 12_000) do
    { product_id: random.rand(1..2000), user_id: random.rand(1..200), rating: random.rand(1..5),
      body: paragraphs.call(1..2, 8..70), **at.call }
  end
  insert.call(Order, 3000) { { user_id: random.rand(1..200), status: %w[open paid sent].sample(random: random), **at.call } }
  insert.call(LineItem, 9000) do
    { order_id: random.rand(1..3000), product_id: random.rand(1..2000), quantity: random.rand(1..4),
      price_cents: random.rand(99..99_999) }
  end
end
