module anycable

go 1.23

require github.com/anycable/anycable-go v1.5.2
