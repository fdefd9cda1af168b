from canon.cli import main

main()
