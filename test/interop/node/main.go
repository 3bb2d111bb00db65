// Node is our end of an interoperability test.
package main

func main() {}
