from canon.command import main

main()
