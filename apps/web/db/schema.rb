# frozen_string_literal: true

ActiveRecord::Base.connection.execute("PRAGMA journal_mode = WAL") # readers of one process beside the writer of another

ActiveRecord::Schema.define do
  create_table :users do |t|
    t.string :name, :email, null: false
    t.string :password_digest, null: false
    t.timestamps
    t.index :email, unique: true
  end

  create_table :products do |t|
    t.string :name, :sku, :category, null: false
    t.integer :price_cents, null: false
    t.text :description, null: false
    t.timestamps
    t.index :category
  end

  create_table :reviews do |t|
    t.references :product, null: false
    t.references :user, null: false
    t.integer :rating, null: false
    t.text :body, null: false
    t.timestamps
  end

  create_table :orders do |t|
    t.references :user, null: false
    t.string :status, null: false
    t.timestamps
  end

  create_table :line_items do |t|
    t.references :order, null: false
    t.references :product, null: false
    t.integer :quantity, :price_cents, null: false
  end

  create_table :uploads do |t|
    t.references :user, null: false
    t.string :name, :content_type, :sha256, null: false
    t.binary :content, null: false
    t.timestamps
  end
end
